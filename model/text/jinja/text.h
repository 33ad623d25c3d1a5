#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/text/tokenizer.h"

namespace model::text::jinja {

/// A string that knows which of its bytes came out of the request ("foreign") rather than out of the
/// template. Every operation of the language carries that along; comparisons do not look at it. Invariant:
/// `literal` is ascending, disjoint, merged, in bounds.
class Text {
 public:
  Text() = default;
  static Text own(std::string bytes);
  static Text foreign(std::string bytes);

  std::string_view bytes() const { return bytes_; }
  std::size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  const std::vector<ByteRange>& literal() const { return literal_; }
  bool is_foreign(std::size_t byte) const;

  void append(const Text& other) { append(other, 0, other.size()); }
  void append(const Text& other, std::size_t first, std::size_t last);
  void append(std::string_view bytes, bool foreign);
  Text slice(std::size_t first, std::size_t last) const;

  std::string take_bytes() && { return std::move(bytes_); }
  std::vector<ByteRange> take_literal() && { return std::move(literal_); }

 private:
  void mark(std::size_t first, std::size_t last);

  std::string bytes_;
  std::vector<ByteRange> literal_;
};

/// UTF-8 by code points, which is what Python counts. Broken sequences count byte by byte and never read out
/// of bounds.
std::size_t code_point_size(std::string_view text, std::size_t at);
char32_t code_point(std::string_view text, std::size_t at);
std::size_t code_point_before(std::string_view text,
                              std::size_t end);  ///< offset of the code point that ends at `end` > 0
std::size_t count_code_points(std::string_view text);
std::size_t code_point_offset(std::string_view text,
                              std::size_t index);  ///< byte offset; text.size() past the end
void append_utf8(std::string& out, char32_t code);
/// Like string_view::find, linear for every needle.
std::size_t find_bytes(std::string_view text, std::string_view needle, std::size_t from);
bool is_space(char32_t code);  ///< str.isspace of one character

}  // namespace model::text::jinja
