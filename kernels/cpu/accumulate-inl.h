// Small products of the sequence operations. Included once per Highway target, after lanes-inl.h.

#if defined(KERNELS_CPU_ACCUMULATE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KERNELS_CPU_ACCUMULATE_INL_H_
#undef KERNELS_CPU_ACCUMULATE_INL_H_
#else
#define KERNELS_CPU_ACCUMULATE_INL_H_
#endif

#include <algorithm>

#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kernels::cpu {
namespace HWY_NAMESPACE {

/// c[m][n] += sum_k a[m][k] * b[k][n]. Every element of c is one chain of fmas in ascending k, so neither how
/// rows are grouped nor a cut of the k range changes a bit, and a row's value depends on its own k range
/// alone.
struct Product {
  float* c;
  std::int64_t c_pitch;
  const float* a;
  std::int64_t a_pitch;
  const float* const* b;  ///< row pointers
  std::int64_t cols;
};

template <int M, bool kWhole>
HWY_INLINE void accumulate_lanes(const Product& p, std::int64_t row, std::int64_t column,
                                 std::int64_t k_first, std::int64_t k_end) {
  const std::int64_t n = kWhole ? kLanes : p.cols - column;
  const auto read = [n](const float* from) HWY_ATTR { return kWhole ? load(from) : load_first(from, n); };
  const float* a = p.a + row * p.a_pitch;
  float* c = p.c + row * p.c_pitch + column;
  Lanes16 acc[M];
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) acc[m] = read(c + m * p.c_pitch);
  for (std::int64_t k = k_first; k < k_end; ++k) {
    const Lanes16 b = read(p.b[k] + column);
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) acc[m] = fma(splat(a[m * p.a_pitch + k]), b, acc[m]);
  }
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) {
    if constexpr (kWhole) {
      store(acc[m], c + m * p.c_pitch);
    } else {
      store_first(acc[m], c + m * p.c_pitch, n);
    }
  }
}

/// Two sixteens of columns at once, so that few rows still keep the multipliers busy.
template <int M>
HWY_INLINE void accumulate_pairs(const Product& p, std::int64_t row, std::int64_t column,
                                 std::int64_t k_first, std::int64_t k_end) {
  const float* a = p.a + row * p.a_pitch;
  float* c = p.c + row * p.c_pitch + column;
  Lanes16 acc[M][2];
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) {
    acc[m][0] = load(c + m * p.c_pitch);
    acc[m][1] = load(c + m * p.c_pitch + kLanes);
  }
  for (std::int64_t k = k_first; k < k_end; ++k) {
    const Lanes16 first = load(p.b[k] + column), second = load(p.b[k] + column + kLanes);
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) {
      const Lanes16 factor = splat(a[m * p.a_pitch + k]);
      acc[m][0] = fma(factor, first, acc[m][0]);
      acc[m][1] = fma(factor, second, acc[m][1]);
    }
  }
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) {
    store(acc[m][0], c + m * p.c_pitch);
    store(acc[m][1], c + m * p.c_pitch + kLanes);
  }
}

template <int M>
HWY_INLINE void accumulate_block(const Product& p, std::int64_t row, std::int64_t k_first,
                                 std::int64_t k_end) {
  std::int64_t column = 0;
  if constexpr (kParts == 1) {
    for (; column + 2 * kLanes <= p.cols; column += 2 * kLanes) {
      accumulate_pairs<M>(p, row, column, k_first, k_end);
    }
  }
  for (; column + kLanes <= p.cols; column += kLanes) {
    accumulate_lanes<M, true>(p, row, column, k_first, k_end);
  }
  if (column < p.cols) accumulate_lanes<M, false>(p, row, column, k_first, k_end);
}

inline constexpr std::int64_t kProductRows = 6;

HWY_INLINE void accumulate_rows(const Product& p, std::int64_t row, std::int64_t num_rows,
                                std::int64_t k_first, std::int64_t k_end) {
  switch (num_rows) {
    case 6:
      return accumulate_block<6>(p, row, k_first, k_end);
    case 5:
      return accumulate_block<5>(p, row, k_first, k_end);
    case 4:
      return accumulate_block<4>(p, row, k_first, k_end);
    case 3:
      return accumulate_block<3>(p, row, k_first, k_end);
    case 2:
      return accumulate_block<2>(p, row, k_first, k_end);
    default:
      return accumulate_block<1>(p, row, k_first, k_end);
  }
}

/// Row m sums over k < k_end(m). Rows are finished in ascending order, so with k_end(m) <= m the rows of b
/// may be those of c: forward substitution.
template <class KEnd>
HWY_INLINE void accumulate(const Product& p, std::int64_t num_rows, const KEnd& k_end) {
  for (std::int64_t row = 0; row < num_rows; row += kProductRows) {
    const std::int64_t block = std::min(kProductRows, num_rows - row);
    std::int64_t shared = k_end(row);
    for (std::int64_t m = 1; m < block; ++m) shared = std::min<std::int64_t>(shared, k_end(row + m));
    accumulate_rows(p, row, block, 0, shared);
    for (std::int64_t m = 0; m < block; ++m) {
      if (k_end(row + m) > shared) accumulate_rows(p, row + m, 1, shared, k_end(row + m));
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // toggled include guard
