#pragma once

#include "model/text/jinja/runtime.h"

namespace model::text::jinja {

/// str.upper, lower, title, capitalize, swapcase, casefold by Unicode's full mappings; each letter keeps
/// where it came from.
Text upper(Runtime& runtime, const Text& text);
Text lower(Runtime& runtime, const Text& text);
Text title(Runtime& runtime, const Text& text);
Text capitalize(Runtime& runtime, const Text& text);
Text swap_case(Runtime& runtime, const Text& text);
Text fold_case(Runtime& runtime, const Text& text);
bool is_upper(std::string_view text);  ///< some cased letter, and all of them upper
bool is_lower(std::string_view text);

}  // namespace model::text::jinja
