#pragma once

#include <string_view>

#include "model/text/jinja/builtins.h"

namespace model::text::jinja {

/// The three tables of filters; null for a name that a table does not have.
Filter find_text_filter(std::string_view name);
Filter find_sequence_filter(std::string_view name);
Filter find_selection_filter(std::string_view name);
Filter find_number_filter(std::string_view name);

}  // namespace model::text::jinja
