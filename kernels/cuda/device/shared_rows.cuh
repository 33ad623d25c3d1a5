#pragma once

#include "kernels/cuda/device/values.cuh"

/// Rows in shared memory and products of them by one warp: 16 rows by 8, on the tensor cores for bf16 and as
/// chains of fmaf for f32. Both give a lane the same four of the 128 results, and each result the same order
/// of summation whatever the other rows hold: a row's value never depends on its neighbours.
namespace kernels::cuda {

/// Columns in shared memory: products take 16 at a time, so rows are filled up with zeros.
__host__ __device__ constexpr int padded_columns(int columns) { return (columns + 15) / 16 * 16; }
/// Elements from row to row: 16 bytes more than the columns keep the eight rows of a fragment in different
/// banks.
template <class T>
__host__ __device__ constexpr int shared_pitch(int columns) {
  return padded_columns(columns) + 16 / static_cast<int>(sizeof(T));
}

/// Brings rows into shared memory: row i from row_at(i), or zeros where that is null, and zeros beyond
/// `columns`. `wide`: rows lie on 16-byte boundaries and are whole 16-byte pieces; they arrive in the
/// background, to be waited for as copy_async_16 says (the caller commits). `readable` is any address of the
/// same matrix.
template <int kThreads, class T, class RowAt>
__device__ void fetch_rows(T* to, int num_rows, int columns, bool wide, const T* readable,
                           const RowAt& row_at) {
  const int pitch = shared_pitch<T>(columns);
  const int t = static_cast<int>(threadIdx.x);
  if (wide) {
    const int pieces = padded_columns(columns) / kPer16<T>;
    for (int p = t; p < num_rows * pieces; p += kThreads) {
      const int row = p / pieces, column = p % pieces * kPer16<T>;
      const T* const from = row_at(row);
      const bool valid = from != nullptr && column < columns;
      copy_async_16(to + row * pitch + column, valid ? from + column : readable, valid);
    }
  } else {
    const int width = padded_columns(columns);
    for (int p = t; p < num_rows * width; p += kThreads) {
      const int row = p / width, column = p % width;
      const T* const from = row_at(row);
      to[row * pitch + column] = from != nullptr && column < columns ? from[column] : from_float<T>(0.0F);
    }
  }
}

__device__ inline std::uint32_t pair_at(const gpu::bf16* x) {
  return *reinterpret_cast<const std::uint32_t*>(x);
}

/// d[16, 8] += a[16, depth] b[8, depth]^T, both with rows along depth, a multiple of 16. The lane's results
/// as mma_bf16 lays them out: rows lane / 4 and + 8, columns 2 (lane % 4) and + 1.
__device__ inline void multiply_rows(float (&d)[4], const gpu::bf16* a, int a_pitch, const gpu::bf16* b,
                                     int b_pitch, int depth) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int g = lane / 4, pair = 2 * (lane % 4);
  const gpu::bf16* const top = a + g * a_pitch + pair;
  const gpu::bf16* const bottom = top + 8 * a_pitch;
  const gpu::bf16* const right = b + g * b_pitch + pair;
#pragma unroll 4
  for (int k = 0; k < depth; k += 16) {
    const std::uint32_t left[4] = {pair_at(top + k), pair_at(bottom + k), pair_at(top + k + 8),
                                   pair_at(bottom + k + 8)};
    const std::uint32_t column[2] = {pair_at(right + k), pair_at(right + k + 8)};
    mma_bf16(d, left, column);
  }
}
__device__ inline void multiply_rows(float (&d)[4], const float* a, int a_pitch, const float* b, int b_pitch,
                                     int depth) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int g = lane / 4, pair = 2 * (lane % 4);
#pragma unroll 4
  for (int k = 0; k < depth; ++k) {
    const float top = a[g * a_pitch + k], bottom = a[(g + 8) * a_pitch + k];
    const float left = b[pair * b_pitch + k], right = b[(pair + 1) * b_pitch + k];
    d[0] = fmaf(top, left, d[0]);
    d[1] = fmaf(top, right, d[1]);
    d[2] = fmaf(bottom, left, d[2]);
    d[3] = fmaf(bottom, right, d[3]);
  }
}

/// Stores a lane's results of one product in a matrix in shared memory.
__device__ inline void store_product(float* to, int pitch, const float (&d)[4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float* const place = to + lane / 4 * pitch + 2 * (lane % 4);
  place[0] = d[0];
  place[1] = d[1];
  place[8 * pitch] = d[2];
  place[8 * pitch + 1] = d[3];
}

}  // namespace kernels::cuda
