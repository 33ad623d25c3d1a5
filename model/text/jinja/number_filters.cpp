#include <charconv>
#include <cmath>
#include <limits>

#include "model/text/jinja/filters.h"
#include "model/text/jinja/format.h"
#include "model/text/jinja/operators.h"
#include "model/text/jinja/print.h"
#include "model/text/jinja/text_algorithms.h"

namespace model::text::jinja {
namespace {

/// The text without the whitespace around it and without single underscores between digits; none when those
/// are misplaced.
std::optional<std::string> plain_number(Runtime& runtime, const Text& text) {
  const Text stripped = strip(runtime, text, nullptr, Side::both);
  const auto bytes = stripped.bytes();
  std::string plain;
  const auto is_digit = [&](std::size_t at) {
    return at < bytes.size() && std::isxdigit(static_cast<unsigned char>(bytes[at]));
  };
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    if (bytes[at] != '_')
      plain.push_back(bytes[at]);
    else if (at == 0 || !is_digit(at - 1) || !is_digit(at + 1))
      return std::nullopt;
  }
  return plain;
}

/// Python's int(text, base).
std::optional<std::int64_t> parse_integer(Runtime& runtime, const Text& text, std::int64_t base) {
  if (base != 0 && (base < 2 || base > 36)) return std::nullopt;
  const auto plain = plain_number(runtime, text);
  if (!plain) return std::nullopt;
  std::string_view digits = *plain;
  const bool negative = digits.starts_with("-");
  if (negative || digits.starts_with("+")) digits.remove_prefix(1);
  const auto prefixed = [&](char letter, std::int64_t its_base) {
    if (digits.size() < 3 || digits[0] != '0' || (digits[1] | 0x20) != letter ||
        (base != 0 && base != its_base))
      return false;
    digits.remove_prefix(2);
    base = its_base;
    return true;
  };
  if (!prefixed('x', 16) && !prefixed('o', 8) && !prefixed('b', 2) && base == 0) {
    if (digits.size() > 1 && digits[0] == '0') return std::nullopt;
    base = 10;
  }
  std::uint64_t magnitude = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), magnitude, static_cast<int>(base));
  if (end != digits.data() + digits.size() || digits.empty() || error == std::errc::invalid_argument)
    return std::nullopt;
  if (error == std::errc::result_out_of_range ||
      magnitude > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    fail("integer past 64 bit");
  }
  return negative ? -static_cast<std::int64_t>(magnitude) : static_cast<std::int64_t>(magnitude);
}

std::optional<double> parse_float(Runtime& runtime, const Text& text) {
  const auto plain = plain_number(runtime, text);
  if (!plain) return std::nullopt;
  std::string_view digits = *plain;
  const bool negative = digits.starts_with("-");
  if (negative || digits.starts_with("+")) digits.remove_prefix(1);
  if (digits.empty() || digits[0] == '-' || digits[0] == '+' || digits.find('(') != std::string_view::npos)
    return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (end != digits.data() + digits.size() || error == std::errc::invalid_argument) return std::nullopt;
  if (error ==
      std::errc::result_out_of_range) {  // from_chars leaves the value alone; strtod gives 0 or infinity
    value = std::strtod(std::string(digits).c_str(), nullptr);
  }
  return negative ? -value : value;
}

std::int64_t truncated(double number) {
  if (!std::isfinite(number)) fail("cannot convert float infinity or NaN to integer");
  if (std::fabs(number) >= 9.2e18) fail("integer past 64 bit");
  return static_cast<std::int64_t>(number);
}

void refuse_undefined(const Value& input) {
  if (const auto* undefined = input.as_undefined()) fail(*undefined->message);
}

Value to_integer(Runtime& runtime, const Value& input, Args args) {
  const Bound bound(std::move(args), "filter int", {"default", "base"});
  refuse_undefined(input);
  const Value otherwise = bound.has(0) ? bound[0] : Value(std::int64_t{0});
  if (const auto number = input.as_int()) return Value(*number);
  if (const auto* number = input.as_float())
    return std::isnan(*number) ? otherwise : Value(truncated(*number));
  const auto* text = input.as_text();
  if (!text) return otherwise;
  if (const auto number = parse_integer(runtime, *text, bound.integer(1, 10))) return Value(*number);
  const auto number = parse_float(runtime, *text);
  return number && !std::isnan(*number) ? Value(truncated(*number)) : otherwise;
}

Value to_float(Runtime& runtime, const Value& input, Args args) {
  const Bound bound(std::move(args), "filter float", {"default"});
  refuse_undefined(input);
  if (const auto number = input.as_number()) return Value(*number);
  if (const auto* text = input.as_text()) {
    if (const auto number = parse_float(runtime, *text)) return Value(*number);
  }
  return bound.has(0) ? bound[0] : Value(0.0);
}

Value absolute(Runtime&, const Value& input, Args args) {
  const Bound none(std::move(args), "filter abs", {});
  refuse_undefined(input);
  if (const auto number = input.as_int())
    return *number < 0 ? signed_value(Value(*number), true) : Value(*number);
  if (const auto* number = input.as_float()) return Value(std::fabs(*number));
  fail("bad operand type for abs(): '" + std::string(type_name(input)) + "'");
}

Value round(Runtime&, const Value& input, Args args) {
  const Bound bound(std::move(args), "filter round", {"precision", "method"});
  refuse_undefined(input);
  const std::string_view method = bound.has(1) ? bound.text(1).bytes() : "common";
  const std::int64_t precision = bound.integer(0, 0);
  const auto number = input.as_number();
  if (!number) fail("type " + std::string(type_name(input)) + " doesn't define __round__ method");
  if (method == "common") {
    const auto whole = input.as_int();
    if (!whole) return Value(round_decimal(*number, precision));
    if (precision >= 0) return Value(*whole);
    if (precision < -18) return Value(std::int64_t{0});
    std::int64_t unit = 1;
    for (std::int64_t i = precision; i < 0; ++i) unit *= 10;
    const std::int64_t remainder = ((*whole % unit) + unit) % unit, lower = *whole - remainder;
    const bool up =
        remainder > unit - remainder || (remainder == unit - remainder && (lower / unit) % 2 != 0);
    std::int64_t rounded = lower;
    if (up && __builtin_add_overflow(lower, unit, &rounded)) fail("integer past 64 bit");
    return Value(rounded);
  }
  if (method != "ceil" && method != "floor") fail("filter round: method must be common, ceil or floor");
  const double scale = std::pow(10.0, static_cast<double>(precision));
  return Value((method == "ceil" ? std::ceil(*number * scale) : std::floor(*number * scale)) / scale);
}

}  // namespace

Filter find_number_filter(std::string_view name) {
  if (name == "abs") return absolute;
  if (name == "float") return to_float;
  if (name == "int") return to_integer;
  if (name == "round") return round;
  return nullptr;
}

}  // namespace model::text::jinja
