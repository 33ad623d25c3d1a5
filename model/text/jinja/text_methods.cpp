#include <unicode/uchar.h>

#include <algorithm>

#include "model/text/jinja/builtins.h"
#include "model/text/jinja/format.h"
#include "model/text/jinja/letter_case.h"
#include "model/text/jinja/text_algorithms.h"

namespace model::text::jinja {
namespace {

const Text& self_text(const Value& self) { return *self.as_text(); }

void no_arguments(const Args& args, std::string_view what) { const Bound none(args, what, {}); }

std::vector<Value> pieces(Runtime& runtime, const Text& text, const std::vector<ByteRange>& ranges) {
  runtime.check_items(ranges.size());
  std::vector<Value> values;
  values.reserve(ranges.size());
  for (const auto& range : ranges) {
    runtime.step();
    values.emplace_back(text.slice(range.first, range.last));
  }
  return values;
}

template <Text (*Change)(Runtime&, const Text&)>
Value changed(Runtime& runtime, const Value& self, Args args) {
  no_arguments(args, "str method");
  return Value(Change(runtime, self_text(self)));
}

template <Side side>
Value strip_method(Runtime& runtime, const Value& self, Args args) {
  const Bound bound(std::move(args), "strip()", {"chars"});
  const Text* chars = bound.has(0) && !bound[0].is_none() ? &bound.text(0) : nullptr;
  return Value(strip(runtime, self_text(self), chars, side));
}

template <bool from_right>
Value split_method(Runtime& runtime, const Value& self, Args args) {
  const Bound bound(std::move(args), "split()", {"sep", "maxsplit"});
  const Text* separator = bound.has(0) && !bound[0].is_none() ? &bound.text(0) : nullptr;
  const auto& text = self_text(self);
  return make_list(runtime,
                   pieces(runtime, text, split(runtime, text, separator, bound.integer(1, -1), from_right)));
}

Value splitlines(Runtime& runtime, const Value& self, Args args) {
  const Bound bound(std::move(args), "splitlines()", {"keepends"});
  const auto& text = self_text(self);
  return make_list(runtime, pieces(runtime, text, split_lines(runtime, text, bound.flag(0, false))));
}

template <bool from_right>
Value partition(Runtime& runtime, const Value& self, Args args) {
  const Bound bound(std::move(args), "partition()", {"sep"}, 1);
  const auto &text = self_text(self), &separator = bound.text(0);
  auto ranges = split(runtime, text, &separator, 1, from_right);
  std::vector<Value> parts;
  if (ranges.size() == 1) {
    parts = {Value(text), Value(Text()), Value(Text())};
    if (from_right) std::swap(parts[0], parts[2]);
  } else {
    ranges.insert(ranges.begin() + 1, ByteRange{ranges[0].last, ranges[1].first});
    parts = pieces(runtime, text, ranges);
  }
  return make_list(runtime, std::move(parts), List::Shape::tuple);
}

/// The bytes that the arguments start and end (code points, Python's slice rules) leave to search; none when
/// start is past the end.
std::optional<ByteRange> window(Runtime& runtime, const Text& text, const Bound& bound,
                                std::size_t start_at) {
  runtime.work(text.size());
  if (!bound.has(start_at) && !bound.has(start_at + 1)) return ByteRange{0, text.size()};
  const auto size = static_cast<std::int64_t>(count_code_points(text.bytes()));
  const auto clamp = [&](std::int64_t at) { return at < 0 ? std::max<std::int64_t>(at + size, 0) : at; };
  const std::int64_t first = clamp(bound.integer(start_at, 0)),
                     last = std::min(clamp(bound.integer(start_at + 1, size)), size);
  if (first > last) return std::nullopt;
  return ByteRange{code_point_offset(text.bytes(), static_cast<std::size_t>(first)),
                   code_point_offset(text.bytes(), static_cast<std::size_t>(last))};
}

template <bool at_end>
Value affix(Runtime& runtime, const Value& self, Args args) {
  const Bound bound(std::move(args), at_end ? "endswith()" : "startswith()", {"prefix", "start", "end"}, 1);
  const auto& text = self_text(self);
  const auto range = window(runtime, text, bound, 1);
  if (!range) return Value(false);
  const auto bytes = text.bytes().substr(range->first, range->last - range->first);
  const auto matches = [&](const Text& part) {
    return at_end ? bytes.ends_with(part.bytes()) : bytes.starts_with(part.bytes());
  };
  const auto* tuple = bound[0].as_list();
  if (!tuple || tuple->shape != List::Shape::tuple) return Value(matches(bound.text(0)));
  for (const auto& part : tuple->items) {
    if (matches(require_text(part, "startswith()"))) return Value(true);
  }
  return Value(false);
}

/// Code-point index of the first or last occurrence, -1 without one.
std::int64_t position(Runtime& runtime, const Text& text, const Bound& bound, bool from_right) {
  const auto range = window(runtime, text, bound, 1);
  if (!range) return -1;
  const auto bytes = text.bytes().substr(0, range->last);
  const auto part = bound.text(0).bytes();
  std::size_t found = find_bytes(bytes, part, range->first);
  if (from_right && found != std::string_view::npos) {
    found = bytes.rfind(part);
    if (found < range->first) found = std::string_view::npos;
  }
  if (found == std::string_view::npos) return -1;
  return static_cast<std::int64_t>(count_code_points(bytes.substr(0, found)));
}

template <bool from_right>
Value find(Runtime& runtime, const Value& self, Args args) {
  const Bound bound(std::move(args), "find()", {"sub", "start", "end"}, 1);
  return Value(position(runtime, self_text(self), bound, from_right));
}

template <bool from_right>
Value index(Runtime& runtime, const Value& self, Args args) {
  const Bound bound(std::move(args), "index()", {"sub", "start", "end"}, 1);
  const std::int64_t found = position(runtime, self_text(self), bound, from_right);
  if (found < 0) fail("substring not found");
  return Value(found);
}

Value count(Runtime& runtime, const Value& self, Args args) {
  const Bound bound(std::move(args), "count()", {"sub", "start", "end"}, 1);
  const auto& text = self_text(self);
  const auto range = window(runtime, text, bound, 1);
  if (!range) return Value(std::int64_t{0});
  const auto bytes = text.bytes().substr(0, range->last);
  const auto part = bound.text(0).bytes();
  if (part.empty()) return Value::count(count_code_points(bytes.substr(range->first)) + 1);
  std::size_t total = 0;
  for (std::size_t at = range->first; (at = find_bytes(bytes, part, at)) != std::string_view::npos;
       at += part.size())
    ++total;
  return Value::count(total);
}

Value replace_method(Runtime& runtime, const Value& self, Args args) {
  const Bound bound(std::move(args), "replace()", {"old", "new", "count"}, 2);
  return Value(replace(runtime, self_text(self), bound.text(0), bound.text(1), bound.integer(2, -1)));
}

Value join(Runtime& runtime, const Value& self, Args args) {
  const Bound bound(std::move(args), "join()", {"iterable"}, 1);
  const auto items = iterate(runtime, bound[0]);
  Builder out(runtime);
  for (std::size_t i = 0; i < items->items.size(); ++i) {
    runtime.step();
    if (i > 0) out.add(self_text(self));
    out.add(require_text(items->items[i], "join()"));
  }
  return Value(out.take());
}

template <bool suffix>
Value remove_affix(Runtime& runtime, const Value& self, Args args) {
  const Bound bound(std::move(args), "removeprefix()", {"prefix"}, 1);
  const auto &text = self_text(self), &part = bound.text(0);
  runtime.work(text.size());
  if (suffix && text.bytes().ends_with(part.bytes())) return Value(text.slice(0, text.size() - part.size()));
  if (!suffix && text.bytes().starts_with(part.bytes())) return Value(text.slice(part.size(), text.size()));
  return self;
}

template <Side added>
Value justify(Runtime& runtime, const Value& self, Args args) {
  const Bound bound(std::move(args), "center()", {"width", "fillchar"}, 1);
  const Text fill = bound.has(1) ? bound.text(1) : Text::own(" ");
  if (count_code_points(fill.bytes()) != 1) fail("the fill character must be exactly one character long");
  return Value(pad(runtime, self_text(self), bound.integer(0, 0), fill, added));
}

Value zfill(Runtime& runtime, const Value& self, Args args) {
  const Bound bound(std::move(args), "zfill()", {"width"}, 1);
  const auto& text = self_text(self);
  const bool is_signed = !text.empty() && (text.bytes()[0] == '-' || text.bytes()[0] == '+');
  const Text sign = text.slice(0, is_signed), digits = text.slice(is_signed, text.size());
  const std::int64_t width = bound.integer(0, 0);
  Builder out(runtime);
  out.add(sign);
  out.add(pad(runtime, digits, width > 0 ? width - is_signed : 0, Text::own("0"), Side::left));
  return Value(out.take());
}

Value format_method(Runtime& runtime, const Value& self, Args args) {
  return Value(format_braces(runtime, self_text(self), args));
}

bool is_alpha(char32_t c) { return u_isalpha(static_cast<UChar32>(c)); }
bool is_decimal(char32_t c) { return u_isdigit(static_cast<UChar32>(c)); }
bool is_digit(char32_t c) {
  const auto type = u_getIntPropertyValue(static_cast<UChar32>(c), UCHAR_NUMERIC_TYPE);
  return type == U_NT_DECIMAL || type == U_NT_DIGIT;
}
bool is_numeric(char32_t c) {
  return u_getIntPropertyValue(static_cast<UChar32>(c), UCHAR_NUMERIC_TYPE) != U_NT_NONE;
}
bool is_alnum(char32_t c) { return is_alpha(c) || is_numeric(c); }
bool is_ascii(char32_t c) { return c < 0x80; }

template <bool (*Is)(char32_t), bool of_empty = false>
Value all(Runtime& runtime, const Value& self, Args args) {
  no_arguments(args, "str method");
  const auto bytes = self_text(self).bytes();
  runtime.work(bytes.size());
  for (std::size_t at = 0; at < bytes.size(); at += code_point_size(bytes, at)) {
    if (!Is(code_point(bytes, at))) return Value(false);
  }
  return Value(of_empty || !bytes.empty());
}

template <bool (*Is)(std::string_view)>
Value whole(Runtime& runtime, const Value& self, Args args) {
  no_arguments(args, "str method");
  runtime.work(self_text(self).size());
  return Value(Is(self_text(self).bytes()));
}

bool is_title(std::string_view text) {
  bool after_letter = false, any = false;
  for (std::size_t at = 0; at < text.size(); at += code_point_size(text, at)) {
    const auto code = static_cast<UChar32>(code_point(text, at));
    const bool big = u_isUUppercase(code) || u_istitle(code), small = u_isULowercase(code);
    if ((big && after_letter) || (small && !after_letter)) return false;
    after_letter = big || small;
    any = any || after_letter;
  }
  return any;
}

constexpr std::pair<std::string_view, Method> kMethods[] = {
    {"capitalize", changed<capitalize>},
    {"casefold", changed<fold_case>},
    {"center", justify<Side::both>},
    {"count", count},
    {"endswith", affix<true>},
    {"find", find<false>},
    {"format", format_method},
    {"index", index<false>},
    {"isalnum", all<is_alnum>},
    {"isalpha", all<is_alpha>},
    {"isascii", all<is_ascii, true>},
    {"isdecimal", all<is_decimal>},
    {"isdigit", all<is_digit>},
    {"islower", whole<is_lower>},
    {"isnumeric", all<is_numeric>},
    {"isspace", all<is_space>},
    {"istitle", whole<is_title>},
    {"isupper", whole<is_upper>},
    {"join", join},
    {"ljust", justify<Side::right>},
    {"lower", changed<lower>},
    {"lstrip", strip_method<Side::left>},
    {"partition", partition<false>},
    {"removeprefix", remove_affix<false>},
    {"removesuffix", remove_affix<true>},
    {"replace", replace_method},
    {"rfind", find<true>},
    {"rindex", index<true>},
    {"rjust", justify<Side::left>},
    {"rpartition", partition<true>},
    {"rsplit", split_method<true>},
    {"rstrip", strip_method<Side::right>},
    {"split", split_method<false>},
    {"splitlines", splitlines},
    {"startswith", affix<false>},
    {"strip", strip_method<Side::both>},
    {"swapcase", changed<swap_case>},
    {"title", changed<title>},
    {"upper", changed<upper>},
    {"zfill", zfill},
};

}  // namespace

Method find_text_method(std::string_view name) {
  for (const auto& [known, method] : kMethods) {
    if (known == name) return method;
  }
  return nullptr;
}

}  // namespace model::text::jinja
