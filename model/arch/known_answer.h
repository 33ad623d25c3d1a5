#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "model/errors.h"
#include "model/ids.h"

namespace model {

/// What a model is known to say, shipped beside its weights (canary.json): the greedy tokens that follow a
/// prompt. Whoever serves them and hears something else does not serve this model.
struct KnownAnswer {
  std::vector<TokenId> prompt, tokens;

  friend bool operator==(const KnownAnswer&, const KnownAnswer&) = default;
};

/// `{"prompt": [ids], "tokens": [ids]}`; problems name file and key.
Result<KnownAnswer, LoadError> parse_known_answer(std::string_view json, std::string_view file,
                                                  std::int32_t vocab_size);

}  // namespace model
