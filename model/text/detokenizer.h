#pragma once

#include <memory>
#include <string>

#include "model/text/tokenizer.h"

namespace model::text {

/// Turns a sequence's tokens into text as they come. Only complete code points leave: the bytes of a split
/// one wait for the rest; at the end incomplete bytes become U+FFFD. The joined pieces equal
/// Tokenizer::decode of the whole list. A value: copyable, part of HostState.
class Detokenizer {
 public:
  Detokenizer(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special);
  std::string push(TokenId id);
  std::string finish();

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  bool skip_special_;
  std::string pending_;
};

/// The same rule for bytes: complete UTF-8 leaves, broken sequences become U+FFFD (maximal-subpart practice),
/// an incomplete tail stays in `pending`.
std::string take_complete_utf8(std::string& pending);

}  // namespace model::text
