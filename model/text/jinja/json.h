#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "model/text/jinja/value.h"

namespace model::text::jinja {

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<Text> indent;  ///< one level's
  Text item_separator = Text::own(", ");
  Text key_separator = Text::own(": ");
};

/// json.dumps: the text inside strings keeps where it came from, punctuation is the template's.
void write_json(Builder& out, const Value& value, const JsonStyle& style);
/// A value of the request: all of its strings are foreign, its order of keys is kept. Throws Failure.
Value read_json(Runtime& runtime, std::string_view json);

}  // namespace model::text::jinja
