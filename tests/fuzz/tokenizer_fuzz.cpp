#include <vector>

#include "model/text/detokenizer.h"
#include "model/text/tokenizer.h"
#include "tests/fuzz/target.h"

/// A tokenizer.json, and after a zero byte a text that it encodes and decodes.
void fuzz(std::string_view input) {
  const auto tokenizer = model::text::Tokenizer::from_json(fuzzing::take_part(input), "tokenizer.json");
  if (!tokenizer.ok()) {
    fuzzing::require(!tokenizer.error().problems.empty());
    return;
  }
  const model::text::ByteRange literal[] = {{0, input.size() / 2}};
  for (const std::vector<model::TokenId>& ids :
       {(*tokenizer)->encode(input), (*tokenizer)->encode(input, literal),
        (*tokenizer)->encode_ordinary(input)}) {
    for (const model::TokenId id : ids) fuzzing::require((*tokenizer)->is_known(id));
    (void)(*tokenizer)->decode(ids, true);
    (void)(*tokenizer)->decode(ids, false);
  }
}
