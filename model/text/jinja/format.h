#pragma once

#include "model/text/jinja/value.h"

namespace model::text::jinja {

/// `format % values`, where values is a tuple, a dict or one value.
Text format_percent(Runtime& runtime, const Text& format, const Value& values);
/// `format.format(…)`: fields with attributes and items, conversions, and format specifications without
/// fields inside.
Text format_braces(Runtime& runtime, const Text& format, const Args& args);
/// Python's round(number, digits) of a float: ties in the decimal value to even.
double round_decimal(double number, std::int64_t digits);

}  // namespace model::text::jinja
