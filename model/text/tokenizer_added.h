#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "model/text/tokenizer.h"
#include "model/text/tokenizer_file.h"

namespace model::text {

/// A part of a text: an added token, or ordinary text.
struct TextSection {
  std::optional<TokenId> added;
  ByteRange range;
};

/// Finds added tokens: from the left, the longest at each place. Contents are bounded (kMaxAddedTokenBytes),
/// so a search is linear in the text. Immutable; any thread.
class AddedTokenFinder {
 public:
  void add(const AddedToken& token, std::string_view content);
  bool empty() const { return tokens_.empty(); }

  /// Cuts valid UTF-8 into sections, none of them empty. A token lies wholly outside `literal` (ascending,
  /// disjoint ranges of `text`), the white space it strips too; where a longer token would reach into a
  /// literal range, a shorter one still counts.
  std::vector<TextSection> sections(std::string_view text, std::span<const ByteRange> literal) const;

 private:
  struct Token {
    TokenId id;
    bool single_word, lstrip, rstrip;
  };
  struct Node {
    std::int32_t token = -1;
    std::vector<std::pair<char, std::uint32_t>> children;
  };
  struct Found {
    const Token* token;
    std::size_t length;
  };
  const std::uint32_t* child(std::uint32_t node, char byte) const;
  Found longest_at(std::string_view text) const;

  std::vector<Token> tokens_;
  std::vector<Node> nodes_ = std::vector<Node>(1);
  std::array<bool, 256> begins_token_{};  // by first byte: most places of a text need no look at the tree
};

inline constexpr std::size_t kMaxAddedTokenBytes = 1024;

}  // namespace model::text
