#include "model/text/jinja/lexer.h"

#include <algorithm>
#include <array>

#include "model/text/jinja/failure.h"
#include "model/text/jinja/text.h"

namespace model::text::jinja {
namespace {

using Kind = Token::Kind;

bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

/// Python's universal newlines, and without the last one: keep_trailing_newline is off.
std::string normalize_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out.push_back('\n');
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out.push_back(source[i]);
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalize_newlines(source)) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) {
      std::size_t begin = at_;
      while (begin < source_.size() && !opens_tag(begin)) ++begin;
      if (begin == source_.size()) {
        push_text(at_, begin);
        break;
      }
      const char mark = source_[begin + 1];
      const char sign = begin + 2 < source_.size() ? source_[begin + 2] : '\0';
      push_text(at_, end_of_text(begin, mark, sign));
      advance(begin + (sign == '-' || sign == '+' ? 3 : 2));
      if (mark == '#') {
        skip_comment();
      } else if (mark == '{') {
        push(Kind::print_begin);
        expression(Kind::print_end, "}}");
      } else if (!raw_block()) {
        push(Kind::tag_begin);
        expression(Kind::tag_end, "%}");
      }
    }
    push(Kind::end);
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void error(std::string what) const { throw Failure{std::move(what), line_}; }
  bool starts(std::size_t at, std::string_view text) const {
    return source_.compare(at, text.size(), text) == 0;
  }
  bool opens_tag(std::size_t at) const { return starts(at, "{{") || starts(at, "{%") || starts(at, "{#"); }

  void advance(std::size_t to) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
    if (to > at_) line_starting_ = source_[to - 1] == '\n';
    at_ = to;
  }
  void push(Kind kind, std::string text = {}) { tokens_.push_back({kind, std::move(text), line_}); }
  void push_text(std::size_t first, std::size_t last) {
    if (last > first) push(Kind::text, source_.substr(first, last - first));
  }

  /// Where the text before the tag at `begin` ends once the tag's sign or lstrip_blocks has taken its
  /// whitespace.
  std::size_t end_of_text(std::size_t begin, char mark, char sign) const {
    std::size_t end = begin;
    if (sign == '-') {
      while (end > at_ && is_blank(source_[end - 1])) --end;
    } else if (sign != '+' && mark != '{') {
      while (end > at_ && source_[end - 1] != '\n' && is_blank(source_[end - 1])) --end;
      const bool at_line_start = end > at_ ? source_[end - 1] == '\n' : line_starting_;
      if (!at_line_start) end = begin;
    }
    return end;
  }

  /// Behind the end mark at `mark`, whose sign stands before it: all whitespace for '-', else one newline
  /// (trim_blocks).
  std::size_t after_mark(std::size_t mark, char sign, bool trims_newline) const {
    std::size_t end = mark + 2;
    if (sign == '-') {
      while (end < source_.size() && is_blank(source_[end])) ++end;
    } else if (sign != '+' && trims_newline && end < source_.size() && source_[end] == '\n') {
      ++end;
    }
    return end;
  }

  void skip_comment() {
    const std::size_t mark = source_.find("#}", at_);
    if (mark == std::string::npos) error("missing end of comment tag");
    advance(after_mark(mark, mark > at_ ? source_[mark - 1] : '\0', true));
  }

  /// `at` behind whitespace and `word`, or npos.
  std::size_t match_word(std::size_t at, std::string_view word) const {
    while (at < source_.size() && is_blank(source_[at])) ++at;
    if (!starts(at, word)) return std::string::npos;
    at += word.size();
    while (at < source_.size() && is_blank(source_[at])) ++at;
    return at;
  }

  bool raw_block() {
    std::size_t body = match_word(at_, "raw");
    if (body == std::string::npos) return false;
    const char sign = body < source_.size() ? source_[body] : '\0';
    if (sign == '-') ++body;
    if (!starts(body, "%}")) return false;
    advance(after_mark(body, sign, false));
    for (std::size_t begin = source_.find("{%", at_); begin != std::string::npos;
         begin = source_.find("{%", begin + 1)) {
      const char open = begin + 2 < source_.size() ? source_[begin + 2] : '\0';
      std::size_t end = match_word(begin + (open == '-' || open == '+' ? 3 : 2), "endraw");
      if (end == std::string::npos) continue;
      const char close = end < source_.size() ? source_[end] : '\0';
      if (close == '-' || close == '+') ++end;
      if (!starts(end, "%}")) continue;
      push_text(at_, end_of_text(begin, '%', open));
      advance(after_mark(end, close, true));
      return true;
    }
    error("missing end of raw directive");
  }

  /// The end mark at the current place: 0, or where the template goes on behind it.
  std::size_t tag_end(std::string_view mark) const {
    const char c = source_[at_];
    if (c == '-' && starts(at_ + 1, mark)) return after_mark(at_ + 1, '-', true);
    if (c == '+' && mark == "%}" && starts(at_ + 1, mark)) return after_mark(at_ + 1, '+', true);
    return starts(at_, mark) ? after_mark(at_, '\0', mark == "%}") : 0;
  }

  void expression(Kind end_kind, std::string_view mark) {
    std::string open;  // the closing brackets still to come: inside them `}}` is no end
    while (at_ < source_.size()) {
      if (is_blank(source_[at_])) {
        advance(at_ + 1);
        continue;
      }
      if (open.empty()) {
        if (const std::size_t behind = tag_end(mark)) {
          push(end_kind);
          advance(behind);
          return;
        }
      }
      const char c = source_[at_];
      if (is_digit(c)) {
        number();
      } else if (is_name_start(c)) {
        std::size_t end = at_;
        while (end < source_.size() && (is_name_start(source_[end]) || is_digit(source_[end]))) ++end;
        push(Kind::name, source_.substr(at_, end - at_));
        advance(end);
      } else if (c == '\'' || c == '"') {
        string();
      } else {
        symbol(open);
      }
    }
    error("unexpected end of template inside a tag");
  }

  std::size_t digits(std::size_t at) const {
    while (at < source_.size() && (is_digit(source_[at]) || (source_[at] == '_' && at + 1 < source_.size() &&
                                                             is_digit(source_[at + 1])))) {
      ++at;
    }
    return at;
  }
  bool has_digit(std::size_t at) const { return at < source_.size() && is_digit(source_[at]); }

  void number() {
    std::size_t end = digits(at_);
    Kind kind = Kind::integer;
    const bool after_dot = at_ > 0 && source_[at_ - 1] == '.';  // foo.0.1 holds no float
    if (!after_dot) {
      if (end < source_.size() && source_[end] == '.' && has_digit(end + 1)) {
        end = digits(end + 1);
        kind = Kind::floating;
      }
      if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
        const std::size_t sign =
            end + 1 < source_.size() && (source_[end + 1] == '+' || source_[end + 1] == '-');
        if (has_digit(end + 1 + sign)) {
          end = digits(end + 1 + sign);
          kind = Kind::floating;
        }
      }
    }
    std::string text = source_.substr(at_, end - at_);
    text.erase(std::remove(text.begin(), text.end(), '_'), text.end());
    push(kind, std::move(text));
    advance(end);
  }

  char32_t code(std::size_t at, std::size_t size, int base) const {
    char32_t value = 0;
    for (std::size_t i = at; i < at + size; ++i) {
      const char c = i < source_.size() ? source_[i] : '\0';
      const int digit = is_digit(c)            ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : 99;
      if (digit >= base) error("broken escape in a string");
      value = value * static_cast<char32_t>(base) + static_cast<char32_t>(digit);
    }
    return value;
  }

  /// The escape whose backslash is at `at`; returns the place behind it.
  std::size_t escape(std::size_t at, std::string& out) const {
    const char c = source_[at + 1];
    constexpr std::string_view kNames = "\\'\"abfnrtv", kValues = "\\'\"\a\b\f\n\r\t\v";
    if (const std::size_t known = kNames.find(c); known != std::string_view::npos) {
      out.push_back(kValues[known]);
      return at + 2;
    }
    if (c == '\n') return at + 2;
    if (c >= '0' && c <= '7') {
      std::size_t size = 1;
      while (size < 3 && at + 1 + size < source_.size() && source_[at + 1 + size] >= '0' &&
             source_[at + 1 + size] <= '7') {
        ++size;
      }
      append_utf8(out, code(at + 1, size, 8));
      return at + 1 + size;
    }
    const std::size_t size = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (size == 0) {
      if (c == 'N') error("\\N{} escapes are not supported");
      out.push_back('\\');
      return at + 1;
    }
    char32_t value = code(at + 2, size, 16);
    std::size_t end = at + 2 + size;
    if (value >= 0xD800 && value < 0xDC00 &&
        starts(end, "\\u")) {  // a pair, as JSON writes what lies past U+FFFF
      const char32_t low = code(end + 2, 4, 16);
      if (low >= 0xDC00 && low < 0xE000) {
        value = 0x10000 + ((value - 0xD800) << 10) + (low - 0xDC00);
        end += 6;
      }
    }
    append_utf8(out, value);
    return end;
  }

  void string() {
    const char quote = source_[at_];
    std::string value;
    std::size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) {
      if (source_[end] == '\\' && end + 1 < source_.size()) {
        end = escape(end, value);
      } else {
        value.push_back(source_[end++]);
      }
    }
    if (end >= source_.size()) error("unterminated string");
    push(Kind::string, std::move(value));
    advance(end + 1);
  }

  void symbol(std::string& open) {
    constexpr std::array<std::string_view, 25> kSymbols{"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                                        "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                        ">",  "<",  "=",  ".",  ":",  "|",  ","};
    for (const auto symbol : kSymbols) {
      if (!starts(at_, symbol)) continue;
      const char c = symbol[0];
      if (c == '(' || c == '[' || c == '{') {
        open.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
      } else if (c == ')' || c == ']' || c == '}') {
        if (open.empty() || open.back() != c) error(std::string("unexpected '") + c + "'");
        open.pop_back();
      }
      push(Kind::symbol, std::string(symbol));
      advance(at_ + symbol.size());
      return;
    }
    error(std::string("unexpected char '") + source_[at_] + "'");
  }

  std::string source_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace model::text::jinja
