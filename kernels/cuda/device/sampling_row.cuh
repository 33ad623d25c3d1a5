#pragma once

#include "kernels/cuda/device/reduce.cuh"
#include "kernels/sampling.h"

/// What the kernels of `sample` share: the order of logits, and what the first of them leaves for the others.
namespace kernels::cuda {

/// Sums of counts and of weights are integers, so they do not depend on the order in which they are formed.
using Sum = unsigned long long;

inline constexpr float kNoLogit = -INFINITY;

/// Larger logits have larger keys; both zeros have one. Every key is above 0.
__device__ inline std::uint32_t key_of(float logit) {
  const std::uint32_t bits = __float_as_uint(logit + 0.0F);
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000U;
}
__device__ inline float logit_of(std::uint32_t key) {
  return __uint_as_float(key >> 31 != 0 ? key & 0x7FFFFFFFU : ~key);
}

/// A logit and its id as one number: the larger is the larger logit, of equal ones the lower id.
__device__ inline Sum ranked(float logit, std::int32_t id) {
  return Sum{key_of(logit)} << 32 | static_cast<std::uint32_t>(~id);
}
__device__ inline float logit_of_ranked(Sum best) { return logit_of(static_cast<std::uint32_t>(best >> 32)); }
__device__ inline std::int32_t id_of_ranked(Sum best) {
  return static_cast<std::int32_t>(~static_cast<std::uint32_t>(best));
}

/// Of a block of kThreads threads; every thread gets the result. `shared` holds kThreads / 32 values.
template <int kThreads, class Combine>
__device__ Sum block_combine(Sum x, Sum* shared, const Combine& combine) {
#pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) x = combine(x, __shfl_xor_sync(kWholeWarp, x, apart));
  __syncthreads();  // whoever still reads an earlier result
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
  __syncthreads();
  x = shared[0];
  for (int w = 1; w < kThreads / 32; ++w) x = combine(x, shared[w]);
  return x;
}
template <int kThreads>
__device__ Sum block_largest(Sum x, Sum* shared) {
  return block_combine<kThreads>(x, shared, [](Sum a, Sum b) { return a > b ? a : b; });
}

/// f(id, logit) of ids first … last - 1, each by one thread of the block, in no order.
template <int kThreads, class F>
__device__ void for_each_logit(const float* logits, int first, int last, const F& f) {
  if (reinterpret_cast<std::uintptr_t>(logits + first) % 16 == 0) {
    const int pieces = (last - first) / 4;
#pragma unroll 4
    for (int piece = static_cast<int>(threadIdx.x); piece < pieces; piece += kThreads) {
      float values[4];
      load_16(logits + first + 4 * piece, values);
#pragma unroll
      for (int i = 0; i < 4; ++i) f(first + 4 * piece + i, values[i]);
    }
    first += 4 * pieces;
  }
  for (int id = first + static_cast<int>(threadIdx.x); id < last; id += kThreads) f(id, logits[id]);
}

__device__ inline bool has_penalty(const RowSampling& p) {
  return p.presence_penalty != 0.0F || p.frequency_penalty != 0.0F || p.repetition_penalty != 1.0F;
}
/// True when the row is drawn from its scratch row.
__device__ inline bool is_adjusted(const RowSampling& p) {
  return p.given_token < 0 && (p.num_biases > 0 || p.num_bans > 0 || has_penalty(p));
}

/// A row is scanned in parts, one block each: how many. Each leaves its largest logit in top_logprobs[part]
/// and that one's id in top_tokens[part] (kUnusable: the part holds NaN or +infinity); the first says in
/// num_top whether the parameters can be used. Until the last kernel writes the row's result over it.
inline constexpr int kScanParts = 16;
inline constexpr std::int32_t kUnusable = -1;
static_assert(kScanParts <= kMaxTopLogprobs);

__device__ inline bool has_usable_params(const SampledRow& row) { return row.num_top != 0; }
__device__ inline bool has_usable_logits(const SampledRow& row) {
  bool usable = true;
  for (int part = 0; part < kScanParts; ++part) usable = usable && row.top_tokens[part] != kUnusable;
  return usable;
}
/// The largest of all parts.
__device__ inline Sum best_scanned(const SampledRow& row) {
  Sum best = 0;
  for (int part = 0; part < kScanParts; ++part) {
    const Sum candidate = ranked(row.top_logprobs[part], row.top_tokens[part]);
    best = candidate > best ? candidate : best;
  }
  return best;
}

}  // namespace kernels::cuda
