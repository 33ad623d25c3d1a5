#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace model::text::jinja {

struct Token {
  enum class Kind {
    text,
    print_begin,
    print_end,
    tag_begin,
    tag_end,
    name,
    string,
    integer,
    floating,
    symbol,
    end
  };
  Kind kind = Kind::end;
  std::string text;  ///< of a string: its value, escapes resolved
  int line = 1;
};

/// The tokens of a template, whitespace control (`-`, `+`, trim_blocks, lstrip_blocks, one newline at the
/// end) already applied. Throws Failure.
std::vector<Token> tokenize(std::string_view source);

}  // namespace model::text::jinja
