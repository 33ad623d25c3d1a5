#pragma once

#include "kernels/cuda/device/values.cuh"

/// Rows in pieces of eight values: 16 bytes of bf16, 32 of f32. A thread takes whole pieces however they are
/// loaded, so sums over a row have one order for aligned and unaligned rows of either type.
namespace kernels::cuda {

inline constexpr int kPiece = 8;

/// Values [0, count) of a piece, the rest zero. kWide: `from` lies on a 16-byte boundary and count is kPiece.
template <bool kWide, class T>
__device__ void load_piece(const T* from, std::int64_t count, float (&to)[kPiece]) {
  if constexpr (kWide) {
    constexpr int kN = kPer16<T>;
    float part[kN];
#pragma unroll
    for (int first = 0; first < kPiece; first += kN) {
      load_16(from + first, part);
#pragma unroll
      for (int i = 0; i < kN; ++i) to[first + i] = part[i];
    }
  } else {
#pragma unroll
    for (int i = 0; i < kPiece; ++i) to[i] = i < count ? to_float(from[i]) : 0.0F;
  }
}

template <bool kWide, class T>
__device__ void store_piece(T* to, std::int64_t count, const float (&from)[kPiece]) {
  if constexpr (kWide) {
    constexpr int kN = kPer16<T>;
    float part[kN];
#pragma unroll
    for (int first = 0; first < kPiece; first += kN) {
#pragma unroll
      for (int i = 0; i < kN; ++i) part[i] = from[first + i];
      store_16(to + first, part);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kPiece; ++i)
      if (i < count) to[i] = from_float<T>(from[i]);
  }
}

/// Sum of squares of x[0, n) as thread `t` of `num_threads` sees it: its pieces ascending, one chain.
template <bool kWide, class T>
__device__ float squares_of_thread(const T* x, std::int64_t n, int t, int num_threads) {
  float sum = 0.0F;
  for (std::int64_t i = std::int64_t{t} * kPiece; i < n; i += std::int64_t{num_threads} * kPiece) {
    float values[kPiece];
    load_piece<kWide>(x + i, n - i, values);
#pragma unroll
    for (int j = 0; j < kPiece; ++j) sum = fmaf(values[j], values[j], sum);
  }
  return sum;
}

}  // namespace kernels::cuda
