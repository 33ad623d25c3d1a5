#include "model/text/detokenizer.h"

#include <utility>

#include "model/text/unicode.h"

namespace model::text {

std::string take_complete_utf8(std::string& pending) {
  std::string out;
  std::string_view rest = pending;
  while (!rest.empty()) {
    const std::size_t valid = valid_utf8_prefix(rest);
    out.append(rest.substr(0, valid));
    rest.remove_prefix(valid);
    if (rest.empty()) break;
    const Utf8Unit unit = first_utf8_unit(rest);
    if (unit.kind == Utf8Unit::Kind::incomplete) break;
    out.append(kReplacementCharacter);
    rest.remove_prefix(unit.length);
  }
  pending.erase(0, pending.size() - rest.size());
  return out;
}

Detokenizer::Detokenizer(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special)
    : tokenizer_(std::move(tokenizer)), skip_special_(skip_special) {}

std::string Detokenizer::push(TokenId id) {
  if (skip_special_ && tokenizer_->is_special(id)) return {};
  pending_.append(tokenizer_->bytes(id));
  return take_complete_utf8(pending_);
}

std::string Detokenizer::finish() {
  return pending_.empty() ? std::string() : replace_invalid_utf8(std::exchange(pending_, {}));
}

}  // namespace model::text
