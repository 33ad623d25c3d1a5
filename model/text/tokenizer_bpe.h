#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/text/tokenizer_file.h"

namespace model::text {

/// Byte-pair encoding of one word (piece of the pre-tokeniser): starts from single bytes and always joins the
/// neighbours whose merge has the lowest rank, leftmost first. O(n log n) in the word. Immutable; any thread,
/// each with a Scratch of its own.
class BytePairEncoder {
 public:
  /// The working memory of one call chain, so that words do not allocate.
  struct Scratch {
    struct Symbol {
      TokenId id;
      std::uint32_t previous, next;
    };
    struct Candidate {
      std::uint64_t order;  // rank, then place
      TokenId merged;
    };
    std::vector<Symbol> symbols;
    std::vector<Candidate> heap;
  };

  explicit BytePairEncoder(const TokenizerFile& file);
  void encode_word(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const;

 private:
  struct Merge {
    std::uint64_t pair = kNoPair;
    std::uint32_t rank = 0;
    TokenId merged = 0;
  };
  static constexpr std::uint64_t kNoPair = ~std::uint64_t{0};
  static constexpr TokenId kNoToken = -1;

  const Merge* merge_of(TokenId left, TokenId right) const;
  void add_merge(Merge merge);
  void merge_word(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const;
  void consider(Scratch& scratch, std::uint32_t place) const;

  std::array<TokenId, 256> by_byte_;
  std::vector<Merge> merges_;  // open addressing, at most half full
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  std::unordered_map<std::string, TokenId, Hash, std::equal_to<>>
      whole_words_;  // words known to be one token without a look at the merges
};

}  // namespace model::text
