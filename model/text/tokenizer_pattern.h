#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "model/text/tokenizer_file.h"

namespace model::text {

struct PatternError {
  std::string what;
};

/// A pattern in Oniguruma's (Ruby's) syntax, as tokenizer.json has it, in PCRE2's: where the two read the
/// same characters differently it is rewritten
/// (\s, \w, \p{Script}, classes, {,n}), and what cannot be is an error.
std::variant<std::string, PatternError> pcre_of_oniguruma(std::string_view pattern);

/// Cuts text into words by the split rules of a tokenizer, each rule working on the pieces that the rules
/// before it left. Immutable; any thread.
class WordSplitter {
 public:
  static Result<WordSplitter, LoadError> compile(const std::vector<SplitRule>& rules, std::string_view file);

  /// The pieces of `text` (valid UTF-8) in order, none of them empty.
  void split(std::string_view text, const std::function<void(std::string_view)>& on_word) const;

 private:
  struct Rule {
    std::shared_ptr<const void> code;  // pcre2_code
    bool keep_matches, keep_gaps;
  };
  class Matching;
  std::vector<Rule> rules_;
};

}  // namespace model::text
