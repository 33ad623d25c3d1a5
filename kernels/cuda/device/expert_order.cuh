#pragma once

#include "kernels/cuda/device/gemm_tile.cuh"
#include "kernels/cuda/device/reduce.cuh"

namespace kernels::cuda {

/// The (row, slot) pairs of a step ordered by expert, ascending within one: expert e has pairs[start[e]] …
/// pairs[start[e + 1] - 1]; a pair is row * top_k + slot.
struct ExpertOrder {
  const std::int32_t* start;  // [num_experts + 1]
  const std::int32_t* pairs;
  int num_experts;

  /// How many tile indices cover every expert's tiles of `block` pairs, whoever chose what.
  static std::int64_t max_tiles(std::int64_t num_pairs, std::int64_t num_experts, int block) {
    return num_pairs / block + (num_pairs < num_experts ? num_pairs : num_experts);
  }

  /// The pairs of tile `index`, and their expert. The c-th expert that anybody chose has its tiles from index
  /// start / kBlock + c on: those of two experts never meet, and no list of tiles needs to be made. False: no
  /// tile has this index. Called by a whole warp.
  template <int kBlock>
  __device__ bool find_tile(std::int64_t index, TileRows& tile, int& expert) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int per_lane = (num_experts + 31) / 32;
    const int first = lane * per_lane < num_experts ? lane * per_lane : num_experts;
    const int last = first + per_lane < num_experts ? first + per_lane : num_experts;
    int chosen = 0;
    for (int e = first; e < last; ++e) chosen += start[e + 1] > start[e];
    int chosen_before = chosen;  // inclusive, then exclusive
#pragma unroll
    for (int apart = 1; apart < 32; apart *= 2) {
      const int below = __shfl_up_sync(kWholeWarp, chosen_before, apart);
      if (lane >= apart) chosen_before += below;
    }
    chosen_before -= chosen;

    int found = -1;
    std::int64_t first_index = 0;
    for (int e = first; e < last; ++e) {
      const int begin = start[e], count = start[e + 1] - begin;
      if (count == 0) continue;
      const std::int64_t here = begin / kBlock + chosen_before++;
      if (index >= here && index < here + (count + kBlock - 1) / kBlock) {
        found = e;
        first_index = here;
      }
    }
    const unsigned who = __ballot_sync(kWholeWarp, found >= 0);
    if (who == 0) return false;
    const int lane_of_it = __ffs(static_cast<int>(who)) - 1;
    expert = __shfl_sync(kWholeWarp, found, lane_of_it);
    const int nth = __shfl_sync(kWholeWarp, static_cast<int>(index - first_index), lane_of_it);
    tile.first = start[expert] + std::int64_t{nth} * kBlock;
    const std::int64_t left = start[expert + 1] - tile.first;
    tile.num_rows = static_cast<int>(left < kBlock ? left : kBlock);
    return true;
  }
};

}  // namespace kernels::cuda
