#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace model::text {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

/// What the first bytes of a text are. `length` bytes belong together: a whole code point, or a maximal
/// subpart of one, the unit that is replaced by one U+FFFD (the practice of Unicode 3.9 and of the web, and
/// what the tokenizers library does).
struct Utf8Unit {
  enum class Kind {
    whole,       ///< a code point
    broken,      ///< can never become one, whatever follows
    incomplete,  ///< the text ends inside it
  };
  Kind kind;
  std::size_t length;
};

/// The unit at the start of `text`, which is not empty.
Utf8Unit first_utf8_unit(std::string_view text);

/// Length of the longest prefix that is valid UTF-8.
std::size_t valid_utf8_prefix(std::string_view text);

/// `text` with each broken or incomplete unit replaced by U+FFFD.
std::string replace_invalid_utf8(std::string_view text);

/// `text` fit for a terminal, a log line or a label, wherever it comes from: valid UTF-8, and '?' for each
/// control character.
std::string printable(std::string_view text);

/// The code point that starts at `text`, and the one that ends there; `text` is valid UTF-8 and not empty.
char32_t first_code_point(std::string_view text);
char32_t last_code_point(std::string_view text);

void append_utf8(std::string& out, char32_t code_point);

}  // namespace model::text
