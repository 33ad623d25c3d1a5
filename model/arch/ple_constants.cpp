#include "model/arch/ple_constants.h"

#include <algorithm>
#include <limits>

#include "gpu/units.h"

namespace model {
namespace {

constexpr std::uint64_t kGamma = 0x9E3779B97F4A7C15ULL;

constexpr std::uint64_t splitmix64(std::uint64_t v) {
  v += kGamma;
  v = (v ^ (v >> 30)) * 0xBF58476D1CE4E5B9ULL;
  v = (v ^ (v >> 27)) * 0x94D049BB133111EBULL;
  return v ^ (v >> 31);
}

bool is_prime(std::int64_t v) {
  if (v < 4) return v >= 2;
  if (v % 2 == 0) return false;
  for (std::int64_t d = 3; d * d <= v; d += 2) {
    if (v % d == 0) return false;
  }
  return true;
}

}  // namespace

PleConstants derive_ple_constants(const PleConfig& config, std::int32_t vocab_size, std::int32_t ple_index) {
  PleConstants constants;
  // Odd, and below 2^63 / vocab_size: token * multiplier never overflows a signed 64-bit product.
  const auto half = static_cast<std::uint64_t>(
      std::max<std::int64_t>(1, std::numeric_limits<std::int64_t>::max() / vocab_size / 2));
  const std::uint64_t base =
      static_cast<std::uint64_t>(config.seed) + 10007ULL * static_cast<std::uint64_t>(ple_index);
  for (std::int32_t i = 0; i < config.ngram_size; ++i) {
    const std::uint64_t mixed = splitmix64(base + kGamma * static_cast<std::uint64_t>(i + 1));
    constants.multipliers.push_back(static_cast<std::int64_t>(2 * (mixed % half) + 1));
  }

  // Each layer continues where the one before stopped, so that no two heads of the model share a modulus.
  const std::int32_t heads = config.num_heads();
  std::int64_t prime = config.vocab_size_base - 1;
  std::int64_t rows = 0;
  for (std::int32_t i = 0; i < (ple_index + 1) * heads; ++i) {
    do {
      ++prime;
    } while (!is_prime(prime));
    if (i < ple_index * heads) continue;
    constants.sizes.push_back(prime);
    constants.offsets.push_back(rows);
    rows += prime;
  }
  constants.table_rows = gpu::round_up(rows, config.divisible_by);
  return constants;
}

}  // namespace model
