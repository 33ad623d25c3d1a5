// Dots of one row with several rows. Included once per Highway target, after lanes-inl.h.

#if defined(KERNELS_CPU_DOTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KERNELS_CPU_DOTS_INL_H_
#undef KERNELS_CPU_DOTS_INL_H_
#else
#define KERNELS_CPU_DOTS_INL_H_
#endif

#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kernels::cpu {
namespace HWY_NAMESPACE {

/// out[j] = dot(a, b[j], n), bit for bit, for N rows at a time.
template <int N>
HWY_INLINE void dots_block(const float* a, const float* const* b, std::int64_t n, float* out) {
  Lanes16 acc[N];
  for (int j = 0; j < N; ++j) acc[j] = zero();
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Lanes16 lanes = load(a + i);
    for (int j = 0; j < N; ++j) acc[j] = fma(lanes, load(b[j] + i), acc[j]);
  }
  if (i < n) {
    const Lanes16 lanes = load_first(a + i, n - i);
    for (int j = 0; j < N; ++j) acc[j] = fma(lanes, load_first(b[j] + i, n - i), acc[j]);
  }
  for (int j = 0; j < N; ++j) out[j] = sum(acc[j]);
}

HWY_INLINE void dots(const float* a, const float* const* b, std::int64_t num_b, std::int64_t n, float* out) {
  std::int64_t j = 0;
  for (; j + 4 <= num_b; j += 4) dots_block<4>(a, b + j, n, out + j);
  for (; j < num_b; ++j) dots_block<1>(a, b + j, n, out + j);
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // toggled include guard
