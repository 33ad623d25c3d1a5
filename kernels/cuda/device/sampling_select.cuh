#pragma once

#include "kernels/cuda/device/sampling_row.cuh"

/// Prefixes of the order "larger logit first, equal ones by lower id", found without sorting: by one digit of
/// the key after the other, from sums a digit. By whole blocks of kSelectThreads threads.
namespace kernels::cuda {

inline constexpr int kSelectThreads = 1024;
inline constexpr int kSelectWarps = kSelectThreads / 32;
inline constexpr int kDigitBits = 11;
inline constexpr int kBins = 1 << kDigitBits;

/// Shared memory of a selection.
struct SelectSpace {
  Sum bins[kBins];
  Sum of_warps[kSelectWarps];
  std::uint32_t digit;
  Sum left, own;
};

struct Selected {
  std::uint32_t key = 0;  ///< what is above it sums to less than wanted, with it to at least that
  Sum left = 0;           ///< what of its own sum is needed
  Sum own = 0;            ///< its own sum
};

/// By one whole warp, each lane with the sum of its group: the first lane at which the sums, added from lane
/// 0 on, reach `wanted`, of which what the lanes before it hold is taken off.
__device__ inline int lane_that_reaches(Sum group, Sum& wanted) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  Sum through = group;
#pragma unroll
  for (unsigned apart = 1; apart < 32; apart *= 2) {
    const Sum before = __shfl_up_sync(kWholeWarp, through, apart);
    if (lane >= static_cast<int>(apart)) through += before;
  }
  const unsigned reached = __ballot_sync(kWholeWarp, through >= wanted);
  const int first = reached == 0 ? 31 : __ffs(static_cast<int>(reached)) - 1;
  wanted -= __shfl_sync(kWholeWarp, through - group, first);
  return first;
}

/// The bin at which the sums, added from the last bin down, reach `wanted`; to space.digit, .left and .own.
__device__ inline void find_digit(SelectSpace& space, Sum wanted) {
  constexpr int kGroup = kBins / kSelectWarps;
  static_assert(kGroup == 64 && kSelectWarps == 32);
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int lane = static_cast<int>(threadIdx.x % 32);
  Sum group = space.bins[kGroup * warp + lane] + space.bins[kGroup * warp + 32 + lane];
#pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) group += __shfl_xor_sync(kWholeWarp, group, apart);
  if (lane == 0) space.of_warps[warp] = group;
  __syncthreads();
  if (warp == 0) {
    const int last = kBins - 1 - kGroup * lane_that_reaches(space.of_warps[31 - lane], wanted);
    int bin =
        last - 2 * lane_that_reaches(space.bins[last - 2 * lane] + space.bins[last - 2 * lane - 1], wanted);
    if (space.bins[bin] < wanted) wanted -= space.bins[bin--];
    if (lane == 0) {
      space.digit = static_cast<std::uint32_t>(bin);
      space.left = wanted;
      space.own = space.bins[bin];
    }
  }
  __syncthreads();
}

/// Among ids 0 … vocab - 1 with key(id, logit) and weight(id, logit): the key at which the weights, added
/// from the largest key down, reach `wanted`, which is at least 1 and at most the sum of all. Three passes.
template <class Key, class Weight>
__device__ Selected select_key(const float* logits, int vocab, Sum wanted, SelectSpace& space, const Key& key,
                               const Weight& weight) {
  Selected selected{0, wanted, 0};
  std::uint32_t fixed = 0;  // the bits of `key` that are known
  for (int shift = 32 - kDigitBits; fixed != 0xFFFFFFFFU; shift = max(shift - kDigitBits, 0)) {
    for (int b = static_cast<int>(threadIdx.x); b < kBins; b += kSelectThreads) space.bins[b] = 0;
    __syncthreads();
    for_each_logit<kSelectThreads>(logits, 0, vocab, [&](int id, float logit) {
      const std::uint32_t k = key(id, logit);
      if ((k & fixed) != selected.key) return;
      const Sum w = weight(id, logit);
      if (w != 0) atomicAdd(&space.bins[(k & ~fixed) >> shift], w);
    });
    __syncthreads();
    find_digit(space, selected.left);
    selected.key |= space.digit << shift;
    selected.left = space.left;
    selected.own = space.own;
    fixed = ~((1U << shift) - 1U);
  }
  return selected;
}

/// The end of a prefix: the last logit that belongs to it, and the last id with that logit.
struct Cut {
  std::uint32_t key = 0;
  std::int32_t last_id = -1;
};
__device__ inline bool is_kept(const Cut& cut, std::uint32_t key, std::int32_t id) {
  return key > cut.key || (key == cut.key && id <= cut.last_id);
}

/// The shortest prefix whose weights reach `wanted` (see select_key). The weight depends on the logit alone.
template <class Weight>
__device__ Cut find_cut(const float* logits, int vocab, Sum wanted, SelectSpace& space,
                        const Weight& weight) {
  const auto by_logit = [](int, float logit) { return key_of(logit); };
  const Selected selected = select_key(logits, vocab, wanted, space, by_logit, weight);
  const Sum each = weight(0, logit_of(selected.key));
  if (each == 0) return {selected.key, INT32_MAX};  // an adjusted logit overflowed: nothing weighs anything
  const Sum needed = (selected.left + each - 1) / each;  // how many of that logit
  if (needed * each >= selected.own) return {selected.key, INT32_MAX};
  // The lowest ids of that logit.
  const auto by_id = [](int id, float) { return ~static_cast<std::uint32_t>(id); };
  const auto has_logit = [&](int, float logit) { return key_of(logit) == selected.key ? Sum{1} : Sum{0}; };
  const Selected last = select_key(logits, vocab, needed, space, by_id, has_logit);
  return {selected.key, static_cast<std::int32_t>(~last.key)};
}

}  // namespace kernels::cuda
