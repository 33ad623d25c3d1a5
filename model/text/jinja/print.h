#pragma once

#include <string>

#include "model/text/jinja/value.h"

namespace model::text::jinja {

/// Python's str and repr of a value, appended.
void print(Builder& out, const Value& value);
void repr(Builder& out, const Value& value);
Text to_text(Runtime& runtime, const Value& value);
std::string float_repr(double number);  ///< 1.0, 1e+20, nan: the shortest digits that read back the same

}  // namespace model::text::jinja
