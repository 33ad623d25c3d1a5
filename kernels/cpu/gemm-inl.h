// The matrix product's inner part, shared by gemm and moe_experts: rows of x given by pointer times rows of a
// weight. Every (row, n) value is `dot` of lanes-inl.h, bit for bit, whatever tile computed it: tiles differ
// in how many values they make at once, never in how one is summed.

#if defined(KERNELS_CPU_GEMM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KERNELS_CPU_GEMM_INL_H_
#undef KERNELS_CPU_GEMM_INL_H_
#else
#define KERNELS_CPU_GEMM_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "gpu/units.h"
#include "kernels/cpu/lanes-inl.h"
#include "kernels/cpu/sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kernels::cpu {
namespace HWY_NAMESPACE {

// Rows of x and of w in one register tile, and its accumulators: 4 x 4 of one register each on AVX-512, 2 x 2
// of two or four elsewhere. A tile of fewer rows has more columns.
inline constexpr int kTileRows = kParts == 1 ? 4 : 2;
inline constexpr int kTileCols = kParts == 1 ? 4 : 2;
inline constexpr int kTileSums = kTileRows * kTileCols;
/// From this many rows of x on, f16 and bf16 weights are widened once for all of them (the same values)
/// instead of once a tile.
inline constexpr std::int64_t kWidenRows = kParts == 1 ? 33 : 9;
/// Weights that stay in the nearest cache, as floats, while every row of x passes.
inline constexpr std::int64_t kPanelFloats = 4096;
/// How far ahead of their use weights that are widened are asked for: they come from memory, and short rows
/// are no stream that a processor would recognise.
inline constexpr std::int64_t kAheadWeights = 2048;

/// Asks for the kCount narrow weights from `ahead` on, to the second cache: the first has room for few misses
/// at once, half of what memory delivers. Beyond a weight's end the hint is wasted, no more.
template <int kCount, class T>
HWY_INLINE void ask_for(const T* ahead) {
  if constexpr (!std::is_same_v<T, float>) {
    const char* at = reinterpret_cast<const char*>(ahead);
#pragma GCC unroll 8
    for (std::size_t byte = 0; byte < kCount * sizeof(T); byte += 64) __builtin_prefetch(at + byte, 0, 2);
  }
}

template <int kRows, int kCols, class T>
HWY_INLINE void tile(const float* const* x, const T* w, std::int64_t w_pitch, std::int64_t k, float* const* y,
                     std::int64_t column) {
  Lanes16 acc[kRows][kCols];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
    for (int j = 0; j < kCols; ++j) acc[i][j] = zero();
  }
  // The columns of this tile are read side by side, so what comes ahead is all of the next tile's.
  const T* const next = w + kCols * w_pitch;
  const auto step = [&](auto at, std::int64_t p) HWY_ATTR {
    ask_for<kCols * kLanes>(next + kCols * p);
    if constexpr (kRows == 1) {
      const Lanes16 a = at.load(x[0] + p);
#pragma GCC unroll 16
      for (int j = 0; j < kCols; ++j) acc[0][j] = fma(a, at.load(w + j * w_pitch + p), acc[0][j]);
      return;
    }
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
  store_sums(acc, y, column);
}

/// kRows rows of x with every column of a panel.
template <int kRows, class T>
void panel_rows(const float* const* x, float* const* y, const T* w, std::int64_t w_pitch, std::int64_t k,
                std::int64_t column, std::int64_t columns) {
  constexpr int kWide = kTileSums / kRows;
  std::int64_t n = 0;
  for (; n + kWide <= columns; n += kWide) tile<kRows, kWide>(x, w + n * w_pitch, w_pitch, k, y, column + n);
  if constexpr (kWide > kTileCols) {
    for (; n + kTileCols <= columns; n += kTileCols) {
      tile<kRows, kTileCols>(x, w + n * w_pitch, w_pitch, k, y, column + n);
    }
  }
  for (; n < columns; ++n) tile<kRows, 1>(x, w + n * w_pitch, w_pitch, k, y, column + n);
}

/// y[r][column + n] = dot(x[r], row n of w) for the rows of a panel.
template <class T>
HWY_INLINE void panel(const float* const* x, float* const* y, std::int64_t rows, const T* w,
                      std::int64_t w_pitch, std::int64_t k, std::int64_t column, std::int64_t columns) {
  std::int64_t r = 0;
  for (; r + kTileRows <= rows; r += kTileRows) {
    panel_rows<kTileRows>(x + r, y + r, w, w_pitch, k, column, columns);
  }
  if constexpr (kTileRows > 2) {
    if (r + 2 <= rows) {
      panel_rows<2>(x + r, y + r, w, w_pitch, k, column, columns);
      r += 2;
    }
  }
  if (r < rows) panel_rows<1>(x + r, y + r, w, w_pitch, k, column, columns);
}

/// A thread's room for a panel of widened weights. It grows to the largest seen and stays.
inline float* widened_panel(std::int64_t size) {
  thread_local std::vector<float> room;
  if (static_cast<std::int64_t>(room.size()) < size) room.resize(static_cast<std::size_t>(size));
  return room.data();
}

/// y[r][n] = dot(x[r], row n of w) for n in [first, last). Weights stream through once, panel by panel.
template <class T>
void dot_rows(const float* const* x, float* const* y, std::int64_t rows, const T* w, std::int64_t w_pitch,
              std::int64_t k, std::int64_t first, std::int64_t last) {
  if (rows <= kTileRows) return panel(x, y, rows, w + first * w_pitch, w_pitch, k, first, last - first);
  const std::int64_t most = std::max<std::int64_t>(gpu::round_down(kPanelFloats / k, kTileCols), kTileCols);
  for (std::int64_t n = first; n < last; n += most) {
    const std::int64_t columns = std::min(most, last - n);
    const T* from = w + n * w_pitch;
    if constexpr (!std::is_same_v<T, float>) {
      if (rows >= kWidenRows) {
        float* wide = widened_panel(columns * k);
        for (std::int64_t j = 0; j < columns; ++j) {
          const T* row = from + j * w_pitch;
          for_lanes(k, [&](auto at, std::int64_t p) HWY_ATTR {
            ask_for<kLanes>(row + p + kAheadWeights);
            at.store(at.load(row + p), wide + j * k + p);
          });
        }
        panel(x, y, rows, wide, k, k, n, columns);
        continue;
      }
    }
    panel(x, y, rows, from, w_pitch, k, n, columns);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // toggled include guard
