#include "model/text/jinja/operators.h"

#include <cmath>

#include "model/text/jinja/format.h"

namespace model::text::jinja {
namespace {

std::string_view symbol(Operator op) {
  switch (op) {
    case Operator::add:
      return "+";
    case Operator::subtract:
      return "-";
    case Operator::multiply:
      return "*";
    case Operator::divide:
      return "/";
    case Operator::floor_divide:
      return "//";
    case Operator::modulo:
      return "%";
    case Operator::power:
      return "** or pow()";
  }
  return "?";
}

[[noreturn]] void overflow() { fail("integer past 64 bit"); }

/// `value` by reference: it is written while the other argument is evaluated.
std::int64_t checked(bool overflowed, const std::int64_t& value) {
  if (overflowed) overflow();
  return value;
}

Value integer_power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) fail("0.0 cannot be raised to a negative power");
    return Value(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  std::int64_t result = 1;
  bool base_overflowed = false;
  for (; exponent > 0; exponent >>= 1) {
    if (exponent & 1) {
      if (base_overflowed || __builtin_mul_overflow(result, base, &result)) overflow();
    }
    base_overflowed = base_overflowed || __builtin_mul_overflow(base, base, &base);
  }
  return Value(result);
}

Value of_integers(Operator op, std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  switch (op) {
    case Operator::add:
      return Value(checked(__builtin_add_overflow(a, b, &out), out));
    case Operator::subtract:
      return Value(checked(__builtin_sub_overflow(a, b, &out), out));
    case Operator::multiply:
      return Value(checked(__builtin_mul_overflow(a, b, &out), out));
    case Operator::power:
      return integer_power(a, b);
    default:
      break;
  }
  if (b == 0) fail(op == Operator::divide ? "division by zero" : "integer division or modulo by zero");
  if (op == Operator::divide) return Value(static_cast<double>(a) / static_cast<double>(b));
  if (b == -1) {
    return op == Operator::modulo ? Value(std::int64_t{0})
                                  : Value(checked(__builtin_sub_overflow(std::int64_t{0}, a, &out), out));
  }
  const std::int64_t quotient = a / b, remainder = a % b;
  const bool crosses = remainder != 0 && (remainder < 0) != (b < 0);  // Python rounds down, C++ towards zero
  if (op == Operator::floor_divide) return Value(quotient - (crosses ? 1 : 0));
  return Value(crosses ? remainder + b : remainder);
}

Value of_floats(Operator op, double a, double b) {
  switch (op) {
    case Operator::add:
      return Value(a + b);
    case Operator::subtract:
      return Value(a - b);
    case Operator::multiply:
      return Value(a * b);
    case Operator::power: {
      if (a == 0 && b < 0) fail("0.0 cannot be raised to a negative power");
      if (a < 0 && std::trunc(b) != b) fail("a negative number to a fractional power is complex");
      const double power = std::pow(a, b);
      if (std::isinf(power) && std::isfinite(a) && std::isfinite(b)) fail("result of ** too large");
      return Value(power);
    }
    default:
      break;
  }
  if (b == 0) fail("float division by zero");
  if (op == Operator::divide) return Value(a / b);
  double remainder = std::fmod(a, b);
  double quotient = (a - remainder) / b;
  if (remainder != 0) {
    if ((b < 0) != (remainder < 0)) {
      remainder += b;
      quotient -= 1;
    }
  } else {
    remainder = std::copysign(0.0, b);
  }
  if (op == Operator::modulo) return Value(remainder);
  if (quotient == 0) return Value(std::copysign(0.0, a / b));
  double floor = std::floor(quotient);
  if (quotient - floor > 0.5) floor += 1;
  return Value(floor);
}

Value repeated(Runtime& runtime, const Value& sequence, std::int64_t wanted) {
  const std::size_t times = wanted > 0 ? static_cast<std::size_t>(wanted) : 0;
  if (const auto* text = sequence.as_text()) {
    Builder out(runtime);
    out.repeat(*text, times);
    return Value(out.take());
  }
  const auto& list = *sequence.as_list();
  std::vector<Value> items;
  if (!list.items.empty()) {
    runtime.check_items(times);
    runtime.check_items(times * list.items.size());
    items.reserve(times * list.items.size());
    for (std::size_t i = 0; i < times; ++i) items.insert(items.end(), list.items.begin(), list.items.end());
  }
  return make_list(runtime, std::move(items), list.shape);
}

bool is_repeatable(const Value& value) {
  const auto* list = value.as_list();
  return value.as_text() || (list && (list->shape == List::Shape::list || list->shape == List::Shape::tuple));
}

}  // namespace

Value binary(Runtime& runtime, Operator op, const Value& left, const Value& right) {
  if (op == Operator::modulo && left.as_text()) return Value(format_percent(runtime, *left.as_text(), right));
  for (const auto* side : {&left, &right}) {
    if (const auto* undefined = side->as_undefined()) fail(*undefined->message);
  }
  if (const auto a = left.as_int(), b = right.as_int(); a && b) return of_integers(op, *a, *b);
  if (const auto a = left.as_number(), b = right.as_number(); a && b) return of_floats(op, *a, *b);
  if (op == Operator::add) {
    if (const auto* a = left.as_text(), *b = right.as_text(); a && b) {
      Builder out(runtime);
      out.add(*a);
      out.add(*b);
      return Value(out.take());
    }
    const auto *a = left.as_list(), *b = right.as_list();
    if (a && b && a->shape == b->shape && is_repeatable(left)) {
      runtime.check_items(a->items.size() + b->items.size());
      std::vector<Value> items = a->items;
      items.insert(items.end(), b->items.begin(), b->items.end());
      return make_list(runtime, std::move(items), a->shape);
    }
  }
  if (op == Operator::multiply) {
    if (const auto times = right.as_int(); times && is_repeatable(left))
      return repeated(runtime, left, *times);
    if (const auto times = left.as_int(); times && is_repeatable(right))
      return repeated(runtime, right, *times);
  }
  fail("unsupported operand type(s) for " + std::string(symbol(op)) + ": '" + std::string(type_name(left)) +
       "' and '" + std::string(type_name(right)) + "'");
}

Value signed_value(const Value& operand, bool negative) {
  if (const auto number = operand.as_int()) {
    std::int64_t out = *number;
    return Value(negative ? checked(__builtin_sub_overflow(std::int64_t{0}, *number, &out), out) : out);
  }
  if (const auto* number = operand.as_float()) return Value(negative ? -*number : *number);
  if (const auto* undefined = operand.as_undefined()) fail(*undefined->message);
  fail("bad operand type for unary " + std::string(negative ? "-" : "+") + ": '" +
       std::string(type_name(operand)) + "'");
}

bool holds(Runtime& runtime, Comparison comparison, const Value& left, const Value& right) {
  const auto unordered = [&] {
    const auto *a = left.as_float(), *b = right.as_float();
    return (a && std::isnan(*a)) || (b && std::isnan(*b));
  };
  switch (comparison) {
    case Comparison::equal:
      return equal(runtime, left, right);
    case Comparison::unequal:
      return !equal(runtime, left, right);
    case Comparison::less:
      return less(runtime, left, right);
    case Comparison::greater:
      return less(runtime, right, left);
    case Comparison::less_equal:
      return !less(runtime, right, left) && !unordered();
    case Comparison::greater_equal:
      return !less(runtime, left, right) && !unordered();
    case Comparison::in:
      return contains(runtime, right, left);
    case Comparison::not_in:
      return !contains(runtime, right, left);
  }
  return false;
}

}  // namespace model::text::jinja
