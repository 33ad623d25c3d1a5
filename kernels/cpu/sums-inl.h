// Sums of several accumulators at once, each the tree of lanes-inl.h bit for bit.

#if defined(KERNELS_CPU_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KERNELS_CPU_SUMS_INL_H_
#undef KERNELS_CPU_SUMS_INL_H_
#else
#define KERNELS_CPU_SUMS_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kernels::cpu {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
/// Lane i is sum(v[i]): the same tree for sixteen at once, two registers becoming one at every level.
HWY_INLINE Part sums(const Part (&v)[16]) {
  const D d;
  const hn::Repartition<double, D> d64;
  Part halves[8], quarters[4], eighths[2];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    halves[i] = hn::Add(hn::ConcatUpperLower(d, v[i + 8], v[i]), hn::ConcatLowerUpper(d, v[i + 8], v[i]));
  }
#pragma GCC unroll 8
  for (int i = 0; i < 4; ++i) {
    quarters[i] = hn::Add(hn::OddEvenBlocks(halves[i + 4], halves[i]),
                          hn::SwapAdjacentBlocks(hn::OddEvenBlocks(halves[i], halves[i + 4])));
  }
#pragma GCC unroll 8
  for (int i = 0; i < 2; ++i) {
    const auto a = hn::BitCast(d64, quarters[i]), b = hn::BitCast(d64, quarters[i + 2]);
    eighths[i] = hn::Add(hn::BitCast(d, hn::InterleaveLower(d64, a, b)),
                         hn::BitCast(d, hn::InterleaveUpper(d64, a, b)));
  }
  return hn::Add(hn::OddEven(eighths[1], eighths[0]), hn::Shuffle2301(hn::OddEven(eighths[0], eighths[1])));
}
#endif

/// y[i][column + j] = sum(acc[i][j]).
template <int kRows, int kCols>
HWY_INLINE void store_sums(const Lanes16 (&acc)[kRows][kCols], float* const* y, std::int64_t column) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  if constexpr (kRows * kCols >= 4) {
    Part all[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      all[i] = i < kRows * kCols ? acc[i / kCols % kRows][i % kCols].part[0] : p_splat(0.0F);
    }
    alignas(64) float lanes[16];
    hn::Store(sums(all), D(), lanes);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      std::memcpy(y[i] + column, lanes + i * kCols, std::size_t{kCols} * sizeof(float));
    }
    return;
  }
#endif
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < kCols; ++j) y[i][column + j] = sum(acc[i][j]);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // toggled include guard
