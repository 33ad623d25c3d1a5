#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "model/ids.h"
#include "model/repetition/thresholds.h"
#include "model/repetition/token_traits.h"

namespace model::repetition {

/// How the latest tokens repeat.
struct Tail {
  std::int32_t period = 1;
  std::int32_t tokens = 0;          ///< as many of the latest tokens have that period
  std::int32_t tokens_to_fire = 0;  ///< as many more of the same make it a loop; 0: it is one
};

/// Finds a tail of tokens that repeats exactly, with a period of at most 64. A token costs one comparison
/// with each of the 64 before it, whatever came earlier. A value: copying it and coming back to the copy is
/// never having seen the tokens between (part of HostState).
class Detector {
 public:
  /// Without traits every token is a word.
  Detector(const Thresholds& thresholds, std::shared_ptr<const TokenTraits> traits);

  void push(TokenId token);

  /// A tail that has repeated for max(2 periods, 24 tokens), which is when a loop is suspected (or for what
  /// makes it one, if that is less). Of several, one that is a loop, the shortest of those; else the longest.
  std::optional<Tail> tail() const;

  /// The token seen `back` tokens before the latest, for back < 64.
  TokenId recent(std::int32_t back) const { return recent_[static_cast<std::size_t>(head_ + back)]; }

 private:
  static constexpr std::size_t kPeriods = kLongestPeriod;
  using Counts = std::array<std::int32_t, kPeriods>;  // [i]: of period i + 1
  struct Rules {
    Counts suspects, fires, fires_numeric;  // tokens that equal the one a period before them
  };
  static std::shared_ptr<const Rules> rules_of(const Thresholds& thresholds);

  std::shared_ptr<const Rules> rules_;  // copies share it
  std::shared_ptr<const TokenTraits> traits_;
  Counts run_{};                              // latest tokens that equal the one a period before them
  std::array<TokenId, 2 * kPeriods> recent_;  // newest first from head_, each token twice
  std::int32_t head_ = 0;
  bool suspicious_ = false;
};

}  // namespace model::repetition
