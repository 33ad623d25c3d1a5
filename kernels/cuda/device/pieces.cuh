#pragma once

#include <algorithm>

#include "kernels/cuda/device/values.cuh"
#include "kernels/cuda/launch.h"

/// Rows in pieces of eight values, the unit that one thread of a memory-bound kernel carries: one or two
/// 16-byte accesses where the operands allow (kWide), else value by value, in the same order.
namespace kernels::cuda {

inline constexpr int kPiece = 8;
inline constexpr int kPieceThreads = 256;

/// Values [0, count) of a piece, widened; the others are zero. kWide: all of them, from a 16-byte boundary.
template <bool kWide, class S>
__device__ void load_piece(const S* from, int count, float (&to)[kPiece]) {
  if constexpr (kWide && sizeof(S) == 4) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint4 raw = reinterpret_cast<const uint4*>(from)[half];
      to[4 * half] = __uint_as_float(raw.x);
      to[4 * half + 1] = __uint_as_float(raw.y);
      to[4 * half + 2] = __uint_as_float(raw.z);
      to[4 * half + 3] = __uint_as_float(raw.w);
    }
  } else if constexpr (kWide) {
    const uint4 raw = *reinterpret_cast<const uint4*>(from);
    const std::uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      to[2 * i] = to_float(S{static_cast<std::uint16_t>(words[i] & 0xFFFFU)});
      to[2 * i + 1] = to_float(S{static_cast<std::uint16_t>(words[i] >> 16)});
    }
  } else {
#pragma unroll
    for (int i = 0; i < kPiece; ++i) to[i] = i < count ? to_float(from[i]) : 0.0F;
  }
}

template <bool kWide, class T>
__device__ void store_piece(T* to, int count, const float (&from)[kPiece]) {
  if constexpr (kWide) {
    constexpr int kValues = kPer16<T>;
#pragma unroll
    for (int first = 0; first < kPiece; first += kValues) {
      float part[kValues];
#pragma unroll
      for (int i = 0; i < kValues; ++i) part[i] = from[first + i];
      store_16(to + first, part);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kPiece; ++i) {
      if (i < count) to[i] = from_float<T>(from[i]);
    }
  }
}

/// Four values, from a boundary of four (kWide).
template <bool kWide, class T>
__device__ void load_four(const T* from, float (&to)[4]) {
  if constexpr (kWide && sizeof(T) == 2) {
    const uint2 raw = *reinterpret_cast<const uint2*>(from);
    to[0] = __uint_as_float(raw.x << 16);
    to[1] = __uint_as_float(raw.x & 0xFFFF0000U);
    to[2] = __uint_as_float(raw.y << 16);
    to[3] = __uint_as_float(raw.y & 0xFFFF0000U);
  } else if constexpr (kWide) {
    load_16(from, to);
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) to[i] = to_float(from[i]);
  }
}
template <bool kWide, class T>
__device__ void store_four(T* to, const float (&from)[4]) {
  if constexpr (kWide && sizeof(T) == 2) {
    const auto pair = [](float low, float high) {
      return std::uint32_t{from_float<T>(low).bits} | std::uint32_t{from_float<T>(high).bits} << 16;
    };
    *reinterpret_cast<uint2*>(to) = make_uint2(pair(from[0], from[1]), pair(from[2], from[3]));
  } else if constexpr (kWide) {
    store_16(to, from);
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) to[i] = from_float<T>(from[i]);
  }
}

/// True when rows of the matrix, cut into groups of `width` columns, are whole pieces on 16-byte boundaries.
inline bool in_pieces(const gpu::ConstMatrix& m, gpu::Elements width) {
  return in_16_bytes(m) && width.n % kPiece == 0;
}

/// f(std::true_type{}) or f(std::false_type{}).
template <class F>
auto with_width(bool wide, const F& f) {
  return wide ? f(std::true_type{}) : f(std::false_type{});
}

/// A thread for each piece of [rows, pieces]: blocks of at most 64 pieces (real rows are multiples of 512
/// values) and kPieceThreads threads, so that narrow rows share a block and single ones have several.
inline Grid piece_grid(std::int64_t rows, std::int64_t pieces) {
  unsigned across = 8, down = 1;
  while (across < 64 && across < pieces) across *= 2;
  while (across * down < kPieceThreads && down < rows) down *= 2;
  return {{to_grid(gpu::ceil_div(pieces, across)),
           to_grid(std::min<std::int64_t>(gpu::ceil_div(rows, down), 65535))},
          {across, down}};
}
/// Where a thread of such a grid stands: its piece, its first row, and how far the next one is.
__device__ inline std::int64_t piece_index() { return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ inline std::int64_t first_piece_row() {
  return std::int64_t{blockIdx.y} * blockDim.y + threadIdx.y;
}
__device__ inline std::int64_t piece_row_step() { return std::int64_t{gridDim.y} * blockDim.y; }
__device__ inline int values_left(std::int64_t width, std::int64_t column) {
  return width - column < kPiece ? static_cast<int>(width - column) : kPiece;
}

}  // namespace kernels::cuda
