#pragma once

#include "model/ids.h"
#include "model/repetition/token_traits.h"

namespace model::repetition {

inline constexpr Position kTokensBetweenPoints = 16;  ///< at least
inline constexpr Position kTokensWithoutPoint = 32;   ///< at most

/// Whether a point is to be taken before token `k`, which was just sampled, is fed: where it ends a line or a
/// sentence, or after 32 tokens anyhow. `last` is where the newest point lies, or where generation began.
/// Without traits no token ends anything.
inline bool capture_is_due(const TokenTraits* traits, TokenId token, Position k, Position last) {
  const Position since = k - last;
  if (since >= kTokensWithoutPoint) return true;
  return since >= kTokensBetweenPoints && traits != nullptr && traits->ends_line_or_sentence(token);
}

}  // namespace model::repetition
