#pragma once

#include <cstdint>

namespace cuda_emulator {

/// xorshift64*: which thread goes on. ATLAS_EMULATOR_SEED chooses the sequence of a process.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15U | 1U) {}

  /// In [0, n).
  std::uint32_t below(std::uint32_t n) {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    const auto bits = static_cast<std::uint32_t>((state_ * 0x2545F4914F6CDD1DU) >> 32);
    return static_cast<std::uint32_t>((std::uint64_t{bits} * n) >> 32);
  }

 private:
  std::uint64_t state_;
};

}  // namespace cuda_emulator
