#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "model/ids.h"

namespace model {

/// How a sequence's tokens are chosen: resolved values (request, then generation_config, then the API's
/// defaults), validated by http.
struct SamplingParams {
  float temperature = 1.0F;  ///< 0: greedy
  float top_p = 1.0F;
  float min_p = 0.0F;
  std::int32_t top_k = 0;  ///< 0: off
  float presence_penalty = 0.0F, frequency_penalty = 0.0F, repetition_penalty = 1.0F;
  std::vector<std::pair<TokenId, float>> logit_bias;
  std::uint64_t seed =
      0;  ///< always set: drawn per request when the client gave none; choice i uses seed + i
  std::int32_t num_logprobs = -1;  ///< -1 none; 0 … 20
};

}  // namespace model
