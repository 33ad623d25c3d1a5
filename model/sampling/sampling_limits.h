#pragma once

#include <cstdint>

namespace model {

// Of one sequence and step. They travel with every step, so more of either is refused when a request is
// parsed.
inline constexpr std::int32_t kMaxBiases = 1024;
inline constexpr std::int32_t kMaxBans = 1024;  ///< stop and end-of-text tokens, banned until min_tokens

}  // namespace model
