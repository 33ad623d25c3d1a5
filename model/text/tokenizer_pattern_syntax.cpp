#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>

#include "model/text/tokenizer_pattern.h"
#include "model/text/tokenizer_unicode_additions.h"
#include "model/text/unicode.h"

namespace model::text {
namespace {

// White_Space, and everything else. PCRE2's own \s differs by U+180E.
constexpr std::string_view kWhiteSpace =
    R"(\x{9}-\x{D}\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
constexpr std::string_view kNotWhiteSpace =
    R"(\x{0}-\x{8}\x{E}-\x{1F}\x{21}-\x{84}\x{86}-\x{9F}\x{A1}-\x{167F}\x{1681}-\x{1FFF}\x{200B}-\x{2027})"
    R"(\x{202A}-\x{202E}\x{2030}-\x{205E}\x{2060}-\x{2FFF}\x{3001}-\x{D7FF}\x{E000}-\x{10FFFF})";
constexpr std::array<std::string_view, 37> kCategories = {
    "C",  "Cc", "Cf", "Cn", "Co", "Cs", "L",  "Ll", "Lm", "Lo", "Lt", "Lu", "M",
    "Mc", "Me", "Mn", "N",  "Nd", "Nl", "No", "P",  "Pc", "Pd", "Pe", "Pf", "Pi",
    "Po", "Ps", "S",  "Sc", "Sk", "Sm", "So", "Z",  "Zl", "Zp", "Zs"};

std::string hex_of(char32_t c) {
  char digits[8];
  const auto end = std::to_chars(digits, digits + sizeof digits, static_cast<std::uint32_t>(c), 16).ptr;
  return "\\x{" + std::string(digits, end) + "}";
}

std::string additions_of(std::string_view property) {
  std::string out;
  for (const UnicodeAddition& addition : kUnicodeAdditions) {
    const bool is_of_group =
        property.size() == 1 && addition.property.size() == 2 && addition.property[0] == property[0];
    if (is_of_group || addition.property == property)
      out += hex_of(addition.first) + "-" + hex_of(addition.last);
  }
  return out;
}

std::string property_set(const std::string& property) {
  return "\\p{" + property + "}" + additions_of(property);
}

/// PCRE2's own \w lacks marks and connectors; Oniguruma's has the superscripts and fractions of Latin-1, and
/// no others.
std::string word_set() {
  return R"(\p{Alphabetic})" + additions_of("L") + property_set("M") + property_set("Nd") +
         property_set("Pc") + R"(\x{B2}\x{B3}\x{B9}\x{BC}-\x{BE})";
}

/// What an escape or a character of a class is: one code point, or a set (what stands between the brackets of
/// a class).
struct Item {
  std::optional<char32_t> character;
  std::string set;
  std::string alone = {};  // what to write outside of a class, where that is not the set in brackets
};

/// Reads the pattern once from left to right. `error` is set by whoever finds something that cannot be said
/// in PCRE2; reading stops there.
class Translation {
 public:
  explicit Translation(std::string_view pattern) : rest_(pattern) {}

  std::variant<std::string, PatternError> run() {
    while (!rest_.empty() && error_.empty()) one();
    if (!error_.empty()) return PatternError{error_};
    return std::move(out_);
  }

 private:
  void fail(std::string what) {
    if (error_.empty()) error_ = std::move(what);
  }
  bool next_is(std::string_view text) const { return rest_.starts_with(text); }
  bool take(std::string_view text) {
    if (!next_is(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  char32_t take_code_point() {
    const char32_t c = first_code_point(rest_);
    rest_.remove_prefix(first_utf8_unit(rest_).length);
    return c;
  }

  void one() {
    if (take("\\")) return escape();
    if (take("[")) return bracket();
    if (next_is("(")) return group();
    if (take("{")) return interval();
    append_utf8(out_, take_code_point());
  }

  void group() {
    static constexpr std::array<std::string_view, 9> kOpenings = {"(?:", "(?=",  "(?!",   "(?<=", "(?<!",
                                                                  "(?>", "(?i:", "(?-i:", "(?i)"};
    for (const std::string_view opening : kOpenings) {
      if (!take(opening)) continue;
      out_ += opening;
      return;
    }
    if (next_is("(?") || next_is("(*"))
      return fail("group '" + std::string(rest_.substr(0, 4)) + "' is not supported");
    out_ += "(";
    rest_.remove_prefix(1);
  }

  /// {n} {n,} {n,m} {,m}; anything else is a brace. {n}+ is greedy in one syntax and possessive in the other.
  void interval() {
    const auto number = [this] {
      std::string digits;
      while (!rest_.empty() && rest_[0] >= '0' && rest_[0] <= '9' && digits.size() < 6) {
        digits += rest_[0];
        rest_.remove_prefix(1);
      }
      return digits;
    };
    const std::string_view before = rest_;
    const std::string low = number();
    const bool comma = take(",");
    const std::string high = comma ? number() : "";
    if ((low.empty() && high.empty()) || !take("}")) {
      rest_ = before;
      out_ += "\\{";
      return;
    }
    if (next_is("+")) return fail("a '+' behind an interval is not supported");
    out_ += "{" + (low.empty() ? "0" : low) + (comma ? "," : "") + high + "}";
  }

  void escape() {
    for (const std::string_view anchor : {"A", "z", "Z"}) {
      if (!take(anchor)) continue;
      out_ += "\\";
      out_ += anchor;
      return;
    }
    if (take("W")) {
      out_ += "[^" + word_set() + "]";
      return;
    }
    const Item item = escaped_item();
    if (!error_.empty()) return;
    if (!item.alone.empty()) {
      out_ += item.alone;
    } else {
      out_ += item.character ? hex_of(*item.character) : "[" + item.set + "]";
    }
  }

  /// An escape that means the same inside and outside of a class; the backslash has been taken.
  Item escaped_item() {
    if (rest_.empty()) {
      fail("ends with a backslash");
      return {};
    }
    const char32_t c = take_code_point();
    switch (c) {
      case U's':
        return {std::nullopt, std::string(kWhiteSpace)};
      case U'S':
        return {std::nullopt, std::string(kNotWhiteSpace)};
      case U'd':
        return {std::nullopt, property_set("Nd")};
      case U'D':
        return {std::nullopt, R"(\P{Nd})", "[^" + property_set("Nd") + "]"};
      case U'w':
        return {std::nullopt, word_set()};
      case U'p':
      case U'P':
        return property(c == U'P');
      case U'a':
        return {U'\a', {}};
      case U'e':
        return {U'\x1B', {}};
      case U'f':
        return {U'\f', {}};
      case U'n':
        return {U'\n', {}};
      case U'r':
        return {U'\r', {}};
      case U't':
        return {U'\t', {}};
      case U'v':
        return {U'\v', {}};
      case U'x':
        return take("{") ? hexadecimal(1, 8, "}", 0x10FFFF) : hexadecimal(1, 2, "", 0x7F);
      case U'u':
        return hexadecimal(4, 4, "", 0xFFFF);
      default:
        break;
    }
    const bool is_letter_or_digit =
        c < 0x80 && ((c >= U'0' && c <= U'9') || ((c | 0x20) >= U'a' && (c | 0x20) <= U'z'));
    if (is_letter_or_digit) fail("escape '\\" + std::string(1, static_cast<char>(c)) + "' is not supported");
    return {c, {}};
  }

  Item hexadecimal(std::size_t min_digits, std::size_t max_digits, std::string_view close, char32_t max) {
    std::uint32_t value = 0;
    const auto length = static_cast<std::size_t>(
        std::from_chars(rest_.data(), rest_.data() + std::min(max_digits, rest_.size()), value, 16).ptr -
        rest_.data());
    rest_.remove_prefix(length);
    if (length < min_digits || !take(close) || value > max || (value >= 0xD800 && value <= 0xDFFF))
      fail("hexadecimal escape is not a character");
    return {char32_t{value}, {}};
  }

  Item property(bool negated) {
    const std::size_t end = rest_.find('}');
    if (!take("{") || end == std::string_view::npos) {
      fail("\\p without {…}");
      return {};
    }
    std::string_view name = rest_.substr(0, end - 1);
    rest_.remove_prefix(end);
    if (name.starts_with("^")) {
      negated = !negated;
      name.remove_prefix(1);
    }
    for (const char c : name)
      if (static_cast<unsigned char>((c | 0x20) - 'a') > 'z' - 'a' && c != '_')
        fail("property '" + std::string(name) + "' is not supported");
    const bool is_category = std::find(kCategories.begin(), kCategories.end(), name) != kCategories.end();
    // A bare script name would mean Script_Extensions to PCRE2.
    const std::string pcre = (is_category ? "{" : "{sc:") + std::string(name) + "}";
    const std::string set = "\\p" + pcre + additions_of(name);
    // Within a class a negated property cannot be narrowed: there the newest characters count as outside of
    // the property.
    if (negated) return {std::nullopt, "\\P" + pcre, "[^" + set + "]"};
    return {std::nullopt, set};
  }

  /// A class; the bracket has been taken. Written with every character as a number, so that none has a
  /// meaning of its own.
  void bracket() {
    out_ += take("^") ? "[^" : "[";
    if (next_is("]")) return fail("a class that begins with ']' is not supported");
    while (error_.empty() && !take("]")) {
      const Item low = class_item();
      if (!error_.empty()) return;
      const bool is_range = low.character && rest_.size() > 1 && next_is("-") && rest_[1] != ']';
      if (!is_range) {
        out_ += low.character ? hex_of(*low.character) : low.set;
        continue;
      }
      take("-");
      const Item high = class_item();
      if (!error_.empty()) return;
      if (!high.character || *high.character < *low.character)
        return fail("a class has a range without an end above its start");
      out_ += hex_of(*low.character) + "-" + hex_of(*high.character);
    }
    out_ += "]";
  }

  Item class_item() {
    if (rest_.empty()) {
      fail("a class without ']'");
      return {};
    }
    if (next_is("[") || next_is("&&")) {
      fail("classes within classes are not supported");
      return {};
    }
    if (take("\\")) return escaped_item();
    return {take_code_point(), {}};
  }

  std::string_view rest_;
  std::string out_;
  std::string error_;
};

}  // namespace

std::variant<std::string, PatternError> pcre_of_oniguruma(std::string_view pattern) {
  return Translation(pattern).run();
}

}  // namespace model::text
