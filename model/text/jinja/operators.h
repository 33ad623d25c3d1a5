#pragma once

#include "model/text/jinja/ast.h"

namespace model::text::jinja {

/// Python's arithmetic. Integers have 64 bits: a result past them fails instead of growing.
Value binary(Runtime& runtime, Operator op, const Value& left, const Value& right);
Value signed_value(const Value& operand, bool negative);
bool holds(Runtime& runtime, Comparison comparison, const Value& left, const Value& right);

}  // namespace model::text::jinja
