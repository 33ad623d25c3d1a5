#include "model/text/jinja/format.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "model/text/jinja/access.h"
#include "model/text/jinja/print.h"

namespace model::text::jinja {
namespace {

constexpr std::int64_t kMaxPrecision = 1000;

/// One conversion, of either notation.
struct Spec {
  std::string fill = " ";
  char align = '\0';  ///< < > ^ =, 0: the type's own
  char sign = '-';
  bool alternate = false, thousands = false;
  std::size_t width = 0;
  std::int64_t precision = -1;
  char type = '\0';
};

/// Reads ASCII digits at `at`.
std::int64_t read_number(std::string_view text, std::size_t& at) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), value);
  if (error != std::errc{}) fail("number expected in a format");
  at = static_cast<std::size_t>(end - text.data());
  return value;
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string float_digits(double number, const Spec& spec) {
  const bool percent = spec.type == '%';
  const std::int64_t precision = spec.precision < 0 ? 6 : spec.precision;
  if (precision > kMaxPrecision) fail("format precision past " + std::to_string(kMaxPrecision));
  const char type = percent ? 'f' : spec.type;
  const std::string format = std::string("%") + (spec.alternate ? "#" : "") + ".*" + type;
  std::string out(static_cast<std::size_t>(precision) + 400, '\0');
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  const int size = std::snprintf(out.data(), out.size(), format.c_str(), static_cast<int>(precision),
                                 percent ? number * 100 : number);
#pragma GCC diagnostic pop
  out.resize(static_cast<std::size_t>(std::max(size, 0)));
  return percent ? out + "%" : out;
}

std::string integer_digits(std::uint64_t magnitude, const Spec& spec) {
  const int base = spec.type == 'x' || spec.type == 'X' ? 16
                   : spec.type == 'o'                   ? 8
                   : spec.type == 'b'                   ? 2
                                                        : 10;
  char buffer[70];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), magnitude, base).ptr;
  std::string digits(buffer, end);
  if (spec.type == 'X')
    std::transform(digits.begin(), digits.end(), digits.begin(),
                   [](char c) { return static_cast<char>(std::toupper(c)); });
  return digits;
}

void insert_thousands(std::string& digits) {
  std::size_t whole = 0;
  while (whole < digits.size() && is_digit(digits[whole])) ++whole;
  for (std::size_t at = whole; at > 3; at -= 3) digits.insert(at - 3, ",");
}

void pad(Builder& out, const Text& body, const Spec& spec, char own_align,
         std::string_view sign_and_prefix = {}) {
  const std::size_t size = count_code_points(body.bytes()) + sign_and_prefix.size();
  const std::size_t missing = spec.width > size ? spec.width - size : 0;
  const char align = spec.align ? spec.align : own_align;
  const std::size_t before = align == '>' || align == '=' ? missing : align == '^' ? missing / 2 : 0;
  const Text fill = Text::own(spec.fill);
  if (align == '=') out.add(sign_and_prefix);
  out.repeat(fill, before);
  if (align != '=') out.add(sign_and_prefix);
  out.add(body);
  out.repeat(fill, missing - before);
}

void format_number(Builder& out, const Value& value, Spec spec) {
  const auto integer = value.as_int();
  const bool as_integer = std::string_view("dxXob").find(spec.type) != std::string_view::npos;
  std::string digits, prefix;
  bool negative = false;
  if (as_integer) {
    const std::int64_t number = *integer;
    negative = number < 0;
    digits = integer_digits(
        negative ? 0 - static_cast<std::uint64_t>(number) : static_cast<std::uint64_t>(number), spec);
    if (spec.alternate && spec.type != 'd') prefix = std::string("0") + spec.type;
  } else {
    const double number = *value.as_number();
    negative = std::signbit(number) && !std::isnan(number);
    const bool is_bare = spec.type == '\0';
    if (is_bare && spec.precision >= 0) spec.type = 'g';
    digits = spec.type == '\0' ? float_repr(std::fabs(number)) : float_digits(std::fabs(number), spec);
    if (is_bare && digits.find_first_of(".eni") == std::string::npos) digits += ".0";
  }
  if (spec.thousands) insert_thousands(digits);
  const std::string sign = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  pad(out, Text::own(digits), spec, '>', sign + prefix);
}

void format_text(Builder& out, const Text& text, const Spec& spec) {
  const std::size_t end = spec.precision < 0
                              ? text.size()
                              : code_point_offset(text.bytes(), static_cast<std::size_t>(spec.precision));
  pad(out, text.slice(0, end), spec, '<');
}

Text repr_of(Runtime& runtime, const Value& value) {
  Builder out(runtime);
  repr(out, value);
  return out.take();
}

/// The values that a % format takes one after another, or by name.
class PercentValues {
 public:
  explicit PercentValues(const Value& values) : values_(values), list_(values.as_list()) {
    if (list_ && list_->shape != List::Shape::tuple) list_ = nullptr;
  }
  const Value& next() {
    if (!list_ && used_ == 0) return ++used_, values_;
    if (!list_ || used_ >= list_->items.size()) fail("not enough arguments for format string");
    return list_->items[used_++];
  }
  const Value& named(const Text& name) {
    const auto* dict = values_.as_dict();
    if (!dict) fail("format requires a mapping");
    const auto* value = dict->find(name.bytes());
    if (!value) fail("format has no value for '" + std::string(name.bytes()) + "'");
    used_ = 1;
    return *value;
  }
  void finish() const {
    // Python takes whatever has a subscript, but strings and tuples, for a mapping, of which nothing needs to
    // be used
    const bool is_subscripted = values_.as_dict() || values_.as_list() || values_.as_undefined();
    const bool surplus = list_ ? used_ < list_->items.size() : used_ == 0 && !is_subscripted;
    if (surplus) fail("not all arguments converted during string formatting");
  }

 private:
  const Value& values_;
  const List* list_;
  std::size_t used_ = 0;
};

void percent_value(Builder& out, const Value& value, Spec spec) {
  Runtime& runtime = out.runtime();
  switch (spec.type) {
    case 's':
      return format_text(out, to_text(runtime, value), spec);
    case 'r':
      return format_text(out, repr_of(runtime, value), spec);
    case 'd':
    case 'i':
    case 'u': {
      if (!value.as_number())
        fail("%d format: a real number is required, not " + std::string(type_name(value)));
      spec.type = 'd';
      const auto integer = value.as_int();
      if (integer) return format_number(out, value, spec);
      const double whole = std::trunc(*value.as_float());
      if (!(std::fabs(whole) < 9.2e18)) fail("integer past 64 bit");
      return format_number(out, Value(static_cast<std::int64_t>(whole)), spec);
    }
    case 'x':
    case 'X':
    case 'o':
      if (!value.as_int()) fail("%x format: an integer is required, not " + std::string(type_name(value)));
      return format_number(out, value, spec);
    case 'f':
    case 'F':
    case 'e':
    case 'E':
    case 'g':
    case 'G':
      if (!value.as_number()) fail("must be real number, not " + std::string(type_name(value)));
      return format_number(out, value, spec);
    case 'c': {
      if (const auto* text = value.as_text(); text && count_code_points(text->bytes()) == 1)
        return format_text(out, *text, spec);
      const auto code = value.as_int();
      if (!code || *code < 0 || *code > 0x10FFFF) fail("%c requires int or char");
      std::string bytes;
      append_utf8(bytes, static_cast<char32_t>(*code));
      return pad(out, Text::own(bytes), spec, '>');
    }
    default:
      fail(std::string("unsupported format character '") + spec.type + "'");
  }
}

}  // namespace

Text format_percent(Runtime& runtime, const Text& format, const Value& values) {
  Builder out(runtime);
  PercentValues arguments(values);
  const auto bytes = format.bytes();
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t mark = std::min(bytes.find('%', at), bytes.size());
    out.add(format, at, mark);
    at = mark + 1;
    if (mark == bytes.size()) break;
    const auto peek = [&] {
      if (at >= bytes.size()) fail("incomplete format");
      return bytes[at];
    };
    const Value* value = nullptr;
    if (peek() == '(') {
      const std::size_t end = bytes.find(')', at);
      if (end == std::string_view::npos) fail("incomplete format key");
      value = &arguments.named(format.slice(at + 1, end));
      at = end + 1;
    }
    Spec spec;
    spec.align = '>';
    for (; std::string_view("-+ #0").find(peek()) != std::string_view::npos; ++at) {
      switch (bytes[at]) {
        case '-':
          spec.align = '<';
          break;
        case '#':
          spec.alternate = true;
          break;
        case '0':
          spec.fill = "0";
          break;
        default:
          spec.sign = bytes[at];
      }
    }
    if (spec.align == '<') spec.fill = " ";
    if (is_digit(peek())) spec.width = static_cast<std::size_t>(read_number(bytes, at));
    if (peek() == '.') {
      ++at;
      spec.precision = is_digit(peek()) ? read_number(bytes, at) : 0;
    }
    spec.type = peek();
    ++at;
    if (spec.type == '%') {
      out.add("%");
      continue;
    }
    const bool is_text = spec.type == 's' || spec.type == 'r' || spec.type == 'c';
    if (is_text)
      spec.fill = " ";
    else if (spec.fill == "0")
      spec.align = '=';
    percent_value(out, value ? *value : arguments.next(), spec);
  }
  arguments.finish();
  return out.take();
}

namespace {

Spec parse_spec(std::string_view text) {
  Spec spec;
  constexpr std::string_view kAligns = "<>^=";
  std::size_t at = 0;
  const auto is_align = [&](std::size_t i) {
    return i < text.size() && kAligns.find(text[i]) != std::string_view::npos;
  };
  if (!text.empty()) {
    const std::size_t size = code_point_size(text, 0);
    if (is_align(size)) {
      spec.fill = text.substr(0, size);
      spec.align = text[size];
      at = size + 1;
    } else if (is_align(0)) {
      spec.align = text[at++];
    }
  }
  const auto skip = [&](char c) { return at < text.size() && text[at] == c && (++at, true); };
  if (at < text.size() && std::string_view("+- ").find(text[at]) != std::string_view::npos)
    spec.sign = text[at++];
  spec.alternate = skip('#');
  if (skip('0') && !spec.align) {
    spec.fill = "0";
    spec.align = '=';
  }
  if (at < text.size() && is_digit(text[at])) spec.width = static_cast<std::size_t>(read_number(text, at));
  spec.thousands = skip(',');
  if (skip('.')) spec.precision = read_number(text, at);
  if (at < text.size()) spec.type = text[at++];
  if (at != text.size()) fail("invalid format specifier '" + std::string(text) + "'");
  return spec;
}

void format_value(Builder& out, const Value& value, std::string_view spec_text) {
  Spec spec = parse_spec(spec_text);
  const bool is_number = value.as_number().has_value() && (!value.as_bool() || spec.type != '\0');
  constexpr std::string_view kFloat = "fFeEgG%", kInteger = "dxXob";
  if (!is_number) {
    if (!value.as_text() && !spec_text.empty() && !value.as_bool()) {
      fail("unsupported format string passed to " + std::string(type_name(value)));
    }
    if (spec.type != '\0' && spec.type != 's')
      fail(std::string("unknown format code '") + spec.type + "' for a string");
    if (spec.align == '=') {
      if (spec.fill != "0") fail("'=' alignment not allowed in string format specifier");
      spec.align = '<';
    }
    return format_text(out, to_text(out.runtime(), value), spec);
  }
  if (spec.type == '\0' && value.as_int()) spec.type = 'd';
  const bool known = spec.type == '\0' || kFloat.find(spec.type) != std::string_view::npos ||
                     (value.as_int() && kInteger.find(spec.type) != std::string_view::npos);
  if (!known) fail(std::string("unknown format code '") + spec.type + "' for a number");
  format_number(out, value, spec);
}

/// `name.attribute[item]` of a field.
Value field_value(Runtime& runtime, std::string_view field, const Args& args, std::size_t& automatic) {
  std::size_t end = std::min(field.find_first_of(".["), field.size());
  const std::string_view first = field.substr(0, end);
  Value value;
  if (first.empty() || is_digit(first[0])) {
    std::size_t at = 0;
    const std::size_t index = first.empty() ? automatic++ : static_cast<std::size_t>(read_number(first, at));
    if (index >= args.positional.size()) fail("replacement index " + std::to_string(index) + " out of range");
    value = args.positional[index];
  } else {
    const auto found = std::find_if(args.named.begin(), args.named.end(),
                                    [&](const auto& arg) { return arg.first == first; });
    if (found == args.named.end()) fail("format has no value for '" + std::string(first) + "'");
    value = found->second;
  }
  while (end < field.size()) {
    const bool is_item = field[end] == '[';
    const std::size_t begin = end + 1;
    end = is_item ? field.find(']', begin) : std::min(field.find_first_of(".[", begin), field.size());
    if (end == std::string_view::npos) fail("expected ']' in a format field");
    const std::string_view part = field.substr(begin, end - begin);
    std::size_t at = 0;
    if (is_item && !part.empty() && is_digit(part[0]))
      value = get_item(runtime, value, Value(read_number(part, at)));
    else
      value = is_item ? get_item(runtime, value, Value::own(part)) : get_attribute(runtime, value, part);
    if (is_item) ++end;
  }
  return value;
}

}  // namespace

Text format_braces(Runtime& runtime, const Text& format, const Args& args) {
  Builder out(runtime);
  std::size_t automatic = 0;
  const auto bytes = format.bytes();
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t mark = std::min(bytes.find_first_of("{}", at), bytes.size());
    out.add(format, at, mark);
    at = mark + 1;
    if (mark == bytes.size()) break;
    if (at < bytes.size() && bytes[at] == bytes[mark]) {
      out.add(format, mark, mark + 1);
      ++at;
      continue;
    }
    if (bytes[mark] == '}') fail("single '}' encountered in format string");
    const std::size_t end = bytes.find('}', at);
    if (end == std::string_view::npos) fail("expected '}' before end of string");
    std::string_view field = bytes.substr(at, end - at);
    if (field.find('{') != std::string_view::npos)
      fail("fields inside a format specification are not supported");
    at = end + 1;
    const std::size_t colon = std::min(field.find(':'), field.size());
    const std::string_view spec = colon < field.size() ? field.substr(colon + 1) : std::string_view{};
    field = field.substr(0, colon);
    char conversion = '\0';
    if (const std::size_t bang = field.find('!'); bang != std::string_view::npos) {
      if (bang + 2 != field.size()) fail("broken conversion in a format field");
      conversion = field[bang + 1];
      field = field.substr(0, bang);
    }
    Value value = field_value(runtime, field, args, automatic);
    if (conversion == 'r')
      value = Value(repr_of(runtime, value));
    else if (conversion == 's')
      value = Value(to_text(runtime, value));
    else if (conversion != '\0')
      fail(std::string("unknown conversion '") + conversion + "'");
    format_value(out, value, spec);
  }
  return out.take();
}

double round_decimal(double number, std::int64_t digits) {
  if (!std::isfinite(number) || digits > 400) return number;
  if (digits >= 0) {
    std::string text(static_cast<std::size_t>(digits) + 400, '\0');
    const int size = std::snprintf(text.data(), text.size(), "%.*f", static_cast<int>(digits), number);
    text.resize(static_cast<std::size_t>(std::max(size, 0)));
    std::from_chars(text.data(), text.data() + text.size(), number);
    return number;
  }
  if (digits < -400) return std::copysign(0.0, number);
  const double scale = std::pow(10.0, static_cast<double>(-digits));
  return std::isinf(scale) ? std::copysign(0.0, number) : std::nearbyint(number / scale) * scale;
}

}  // namespace model::text::jinja
