// Dots of one row with several rows. Included once per Highway target, after lanes-inl.h.

#if defined(KERNELS_CPU_DOTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KERNELS_CPU_DOTS_INL_H_
#undef KERNELS_CPU_DOTS_INL_H_
#else
#define KERNELS_CPU_DOTS_INL_H_
#endif

#include "kernels/cpu/lanes-inl.h"
#include "kernels/cpu/sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kernels::cpu {
namespace HWY_NAMESPACE {

/// Rows of a and of b whose sums are kept in registers together. Chosen for speed: a dot has one value
/// whatever the block.
inline constexpr int kDotRows = kParts == 1 ? 4 : 2;
inline constexpr int kDotKeys = kParts == 1 ? 4 : 2;

/// out[m][j] = dot(a[m], b[j], n), bit for bit, for M x N pairs.
template <int M, int N>
HWY_INLINE void dots_block(const float* const* a, const float* const* b, std::int64_t n, float* out,
                           std::int64_t pitch) {
  Lanes16 acc[M][N];
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) {
#pragma GCC unroll 8
    for (int j = 0; j < N; ++j) acc[m][j] = zero();
  }
  for_lanes(n, [&](auto at, std::int64_t i) HWY_ATTR {
    Lanes16 keys[N];
#pragma GCC unroll 8
    for (int j = 0; j < N; ++j) keys[j] = at.load(b[j] + i);
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) {
      const Lanes16 lanes = at.load(a[m] + i);
#pragma GCC unroll 8
      for (int j = 0; j < N; ++j) acc[m][j] = fma(lanes, keys[j], acc[m][j]);
    }
  });
  float* rows[M];
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) rows[m] = out + m * pitch;
  store_sums(acc, rows, 0);
}

template <int N>
HWY_INLINE void dots_of_keys(const float* const* a, std::int64_t num_a, const float* const* b, std::int64_t n,
                             float* out, std::int64_t pitch) {
  std::int64_t m = 0;
  for (; m + kDotRows <= num_a; m += kDotRows) dots_block<kDotRows, N>(a + m, b, n, out + m * pitch, pitch);
  if constexpr (kDotRows > 3) {
    if (m + 3 == num_a) return dots_block<3, N>(a + m, b, n, out + m * pitch, pitch);
    if (m + 2 == num_a) return dots_block<2, N>(a + m, b, n, out + m * pitch, pitch);
  }
  if (m < num_a) dots_block<1, N>(a + m, b, n, out + m * pitch, pitch);
}

/// All pairs; a few rows of b stay in the nearest cache while every row of a passes.
HWY_INLINE void dots(const float* const* a, std::int64_t num_a, const float* const* b, std::int64_t num_b,
                     std::int64_t n, float* out, std::int64_t pitch) {
  std::int64_t j = 0;
  for (; j + kDotKeys <= num_b; j += kDotKeys) dots_of_keys<kDotKeys>(a, num_a, b + j, n, out + j, pitch);
  for (; j < num_b; ++j) dots_of_keys<1>(a, num_a, b + j, n, out + j, pitch);
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // toggled include guard
