// The matrix product's inner part, shared by gemm and moe_experts: rows of x given by pointer times rows of a
// weight. Every (row, n) value is `dot` of lanes-inl.h, bit for bit, whatever tile computed it: tiles differ
// in how many values they make at once, never in how one is summed.

#if defined(KERNELS_CPU_GEMM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KERNELS_CPU_GEMM_INL_H_
#undef KERNELS_CPU_GEMM_INL_H_
#else
#define KERNELS_CPU_GEMM_INL_H_
#endif

#include <cstdint>
#include <type_traits>
#include <vector>

#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kernels::cpu {
namespace HWY_NAMESPACE {

// Rows of x and of w in one register tile: 4 x 4 accumulators of one register each on AVX-512, 2 x 2 of two
// or four elsewhere.
inline constexpr int kTileRows = kParts == 1 ? 4 : 2;
inline constexpr int kTileCols = kParts == 1 ? 4 : 2;
/// From this many rows of x on, f16 and bf16 weights are widened once for all of them (the same values)
/// instead of once a tile.
inline constexpr std::int64_t kWidenRows = 9;

/// y[j] = sum(acc[j]).
template <int kCols>
HWY_INLINE void store_sums(const Lanes16 (&acc)[kCols], float* y) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  if constexpr (kCols == 4) {
    // The same tree for four at once: halves, then quarters, each register holding two and then four values'
    // lanes.
    const D d;
    const auto halves = [&](Part a, Part b) HWY_ATTR {
      return hn::Add(hn::ConcatLowerLower(d, b, a), hn::ConcatUpperUpper(d, b, a));
    };
    const Part even = halves(acc[0].part[0], acc[2].part[0]);
    const Part odd = halves(acc[1].part[0], acc[3].part[0]);
    Part v = hn::Add(hn::OddEvenBlocks(hn::SwapAdjacentBlocks(odd), even),
                     hn::OddEvenBlocks(odd, hn::SwapAdjacentBlocks(even)));
    v = hn::Add(v, hn::Shuffle1032(v));
    v = hn::Add(v, hn::Shuffle2301(v));
    alignas(64) float lanes[16];
    hn::Store(v, d, lanes);
    for (int j = 0; j < 4; ++j) y[j] = lanes[4 * j];
    return;
  }
#endif
  for (int j = 0; j < kCols; ++j) y[j] = sum(acc[j]);
}

template <int kRows, int kCols, class T>
HWY_INLINE void tile(const float* const* x, const T* w, std::int64_t w_pitch, std::int64_t k, float* const* y,
                     std::int64_t column) {
  Lanes16 acc[kRows][kCols];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < kCols; ++j) acc[i][j] = zero();
  }
  const auto step = [&](auto at, std::int64_t p) HWY_ATTR {
    Lanes16 b[kCols];
#pragma GCC unroll 8
    for (int j = 0; j < kCols; ++j) b[j] = at.load(w + j * w_pitch + p);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const Lanes16 a = at.load(x[i] + p);
#pragma GCC unroll 8
      for (int j = 0; j < kCols; ++j) acc[i][j] = fma(a, b[j], acc[i][j]);
    }
  };
  std::int64_t p = 0;
  for (; p + kLanes <= k; p += kLanes) step(WholeLanes(), p);
  if (p < k) step(FirstLanes{k - p}, p);
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) store_sums(acc[i], y[i] + column);
}

/// kCols columns for any number of rows.
template <int kCols, class T>
HWY_INLINE void column_strip(const float* const* x, float* const* y, std::int64_t rows, const T* w,
                             std::int64_t w_pitch, std::int64_t k, std::int64_t column) {
  std::int64_t r = 0;
  for (; r + kTileRows <= rows; r += kTileRows) tile<kTileRows, kCols>(x + r, w, w_pitch, k, y + r, column);
  if constexpr (kTileRows > 2) {
    if (r + 2 <= rows) {
      tile<2, kCols>(x + r, w, w_pitch, k, y + r, column);
      r += 2;
    }
  }
  if (r < rows) tile<1, kCols>(x + r, w, w_pitch, k, y + r, column);
}

/// A thread's room for kTileCols widened rows of a weight. It grows to the largest K seen and stays.
inline float* widened_strip(std::int64_t size) {
  thread_local std::vector<float> room;
  if (static_cast<std::int64_t>(room.size()) < size) room.resize(static_cast<std::size_t>(size));
  return room.data();
}

/// y[r][n] = dot(x[r], row n of w) for n in [first, last). Weights stream through once; a strip of them stays
/// in cache for all rows.
template <class T>
void dot_rows(const float* const* x, float* const* y, std::int64_t rows, const T* w, std::int64_t w_pitch,
              std::int64_t k, std::int64_t first, std::int64_t last) {
  std::int64_t n = first;
  for (; n + kTileCols <= last; n += kTileCols) {
    const T* strip = w + n * w_pitch;
    if constexpr (!std::is_same_v<T, float>) {
      if (rows >= kWidenRows) {
        float* wide = widened_strip(kTileCols * k);
        for (int j = 0; j < kTileCols; ++j) {
          const T* from = strip + j * w_pitch;
          for_lanes(k,
                    [&](auto at, std::int64_t p) HWY_ATTR { at.store(at.load(from + p), wide + j * k + p); });
        }
        column_strip<kTileCols>(x, y, rows, wide, k, k, n);
        continue;
      }
    }
    column_strip<kTileCols>(x, y, rows, strip, w_pitch, k, n);
  }
  for (; n < last; ++n) column_strip<1>(x, y, rows, w + n * w_pitch, w_pitch, k, n);
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // toggled include guard
