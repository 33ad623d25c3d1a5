#pragma once

#include <cstdint>

namespace model::repetition {

inline constexpr std::int32_t kLongestPeriod = 64;

/// When a tail that repeats exactly is a loop: after `min_repeats` of its period and `min_tokens`. A period
/// that is mostly digits, punctuation or white space (tables, zero arrays, separators, hexadecimal dumps)
/// needs `min_tokens_numeric`. A max_period of 0 looks for nothing.
struct Thresholds {
  std::int32_t min_period = 1, max_period = kLongestPeriod;
  std::int32_t min_repeats = 6;
  std::int32_t min_tokens = 64;
  std::int32_t min_tokens_numeric = 256;
};

}  // namespace model::repetition
