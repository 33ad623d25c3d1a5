#pragma once

#include <cstdint>
#include <vector>

#include "model/ids.h"
#include "model/text/tokenizer.h"

namespace model::repetition {

/// What each token of a vocabulary is made of, as a watchdog and a rollback see it. Made once per model,
/// shared by all sequences, never changed; any thread.
class TokenTraits {
 public:
  struct Weight {
    std::uint16_t words = 0;    ///< characters that are letters, or belong to them
    std::uint16_t fillers = 0;  ///< digits, punctuation, white space, table lines
  };

  explicit TokenTraits(const text::Tokenizer& tokenizer);

  /// Of an id outside the vocabulary: a word.
  Weight weight(TokenId token) const;
  /// Its bytes end a line or a sentence: a good place to come back to.
  bool ends_line_or_sentence(TokenId token) const;

 private:
  struct Traits {
    Weight weight;
    bool ends = false;
  };
  const Traits* find(TokenId token) const;

  std::vector<Traits> traits_;
};

/// The two judgements on the bytes of one token. A space before a word belongs to the word; letters of a
/// hexadecimal number are digits; part of a code point counts as what its first byte begins.
TokenTraits::Weight weigh(std::string_view bytes);
bool ends_line_or_sentence(std::string_view bytes);

}  // namespace model::repetition
