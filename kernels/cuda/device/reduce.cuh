#pragma once

#include "kernels/cuda/device/values.cuh"

/// Reductions in one order: lanes 16, 8, 4, 2 and 1 apart, then warps in ascending order. Every thread of the
/// warp or block takes part and gets the result.
namespace kernels::cuda {

inline constexpr unsigned kWholeWarp = 0xFFFFFFFFU;

__device__ inline float warp_sum(float x) {
#pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) x += __shfl_xor_sync(kWholeWarp, x, apart);
  return x;
}
__device__ inline float warp_max(float x) {
#pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) x = fmaxf(x, __shfl_xor_sync(kWholeWarp, x, apart));
  return x;
}

/// Of a block of kThreads threads (a multiple of 32). `shared` holds kThreads / 32 values, and may be used
/// again at once.
template <int kThreads>
__device__ float block_sum(float x, float* shared) {
  x = warp_sum(x);
  if constexpr (kThreads == 32) return x;
  __syncthreads();  // whoever still reads an earlier result
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
  __syncthreads();
  float total = shared[0];
#pragma unroll
  for (int w = 1; w < kThreads / 32; ++w) total += shared[w];
  return total;
}
template <int kThreads>
__device__ float block_max(float x, float* shared) {
  x = warp_max(x);
  if constexpr (kThreads == 32) return x;
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
  __syncthreads();
  float largest = shared[0];
#pragma unroll
  for (int w = 1; w < kThreads / 32; ++w) largest = fmaxf(largest, shared[w]);
  return largest;
}

}  // namespace kernels::cuda
