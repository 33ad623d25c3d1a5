#pragma once

#include <string_view>

#include "model/text/jinja/ast.h"

namespace model::text::jinja {

/// The syntax tree of a template. Throws Failure with a line for what cannot be parsed and for tags, filters
/// and tests that do not exist; inside an `if`, where a template may ask first, an unknown filter or test
/// only fails when it is used.
Body parse(std::string_view source);

}  // namespace model::text::jinja
