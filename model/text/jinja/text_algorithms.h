#pragma once

#include <string_view>
#include <vector>

#include "model/text/jinja/runtime.h"

namespace model::text::jinja {

/// The algorithms of Python's str that filters and methods share. Null `chars`: whitespace.
enum class Side { left, right, both };
Text strip(Runtime& runtime, const Text& text, const Text* chars, Side side);
Text replace(Runtime& runtime, const Text& text, const Text& from, const Text& to, std::int64_t count);
std::vector<ByteRange> split_lines(Runtime& runtime, const Text& text, bool keep_ends);
/// Pieces between `separator`; null: between runs of whitespace. A negative limit is none.
std::vector<ByteRange> split(Runtime& runtime, const Text& text, const Text* separator, std::int64_t limit,
                             bool from_right);
Text pad(Runtime& runtime, const Text& text, std::int64_t width, const Text& fill, Side added);

}  // namespace model::text::jinja
