#pragma once

#include "kernels/cuda/device/gemm_tile.cuh"

namespace kernels::cuda {

/// bf16 operands on tensor cores (mma_bf16): an element's sum is one chain of products of sixteen, in
/// ascending k. Warps side by side: kWarpsM of them along M, the rest along N.
template <int kBlockM, int kBlockN, int kWarpsM, int kWarpsN, int kNumStages>
class MmaCore : public TileShape<gpu::bf16, kBlockM, kBlockN, kWarpsM * kWarpsN * 32, kNumStages> {
 public:
  __device__ MmaCore() {
#pragma unroll
    for (int i = 0; i < kTilesM; ++i) {
#pragma unroll
      for (int j = 0; j < kTilesN; ++j) {
#pragma unroll
        for (int v = 0; v < 4; ++v) sums_[i][j][v] = 0.0F;
      }
    }
  }

  __device__ void accumulate(const unsigned char* x, const unsigned char* w) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    // Of the four 8x8 matrices that a load brings, lane l addresses row l % 8 of matrix l / 8: for x the rows
    // come first (0-7, 8-15, then the same of the next eight k), for w the k's.
    const int x_row = warp_m() * kWarpM + lane % 16, x_piece = lane / 16;
    const int w_row = warp_n() * kWarpN + lane / 16 * 8 + lane % 8, w_piece = lane / 8 % 2;
#pragma unroll
    for (int step = 0; step < kPiecesPerRow / 2; ++step) {
      std::uint32_t a[kTilesM][4];
#pragma unroll
      for (int i = 0; i < kTilesM; ++i)
        load_matrices(a[i], x + staged_piece(x_row + i * 16, 2 * step + x_piece));
#pragma unroll
      for (int j = 0; j < kTilesN; j += 2) {
        std::uint32_t both[4];
        load_matrices(both, w + staged_piece(w_row + j * 8, 2 * step + w_piece));
        const std::uint32_t b[2][2] = {{both[0], both[1]}, {both[2], both[3]}};
#pragma unroll
        for (int i = 0; i < kTilesM; ++i) {
          mma_bf16(sums_[i][j], a[i], b[0]);
          mma_bf16(sums_[i][j + 1], a[i], b[1]);
        }
      }
    }
  }

  template <class Output>
  __device__ void write(const Output& output) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int i = 0; i < kTilesM; ++i) {
      const int m = warp_m() * kWarpM + i * 16 + lane / 4;
#pragma unroll
      for (int j = 0; j < kTilesN; ++j) {
        const int n = warp_n() * kWarpN + j * 8 + lane % 4 * 2;
        output.two(m, n, sums_[i][j][0], sums_[i][j][1]);
        output.two(m + 8, n, sums_[i][j][2], sums_[i][j][3]);
      }
    }
  }

 private:
  static constexpr int kWarpM = kBlockM / kWarpsM, kWarpN = kBlockN / kWarpsN;
  static constexpr int kTilesM = kWarpM / 16, kTilesN = kWarpN / 8;
  static_assert(kWarpM % 16 == 0 && kWarpN % 16 == 0);

  __device__ static int warp_m() { return static_cast<int>(threadIdx.x) / 32 / kWarpsN; }
  __device__ static int warp_n() { return static_cast<int>(threadIdx.x) / 32 % kWarpsN; }

  float sums_[kTilesM][kTilesN][4];
};

/// For few rows the weights' bytes are the floor: narrow tiles put many blocks on them. For many rows it is
/// the tensor cores, of which these instructions reach about 60 % (wgmma reaches the rest).
using MmaFewRows = MmaCore<16, 64, 1, 4, 6>;
using MmaSomeRows = MmaCore<64, 128, 2, 4, 4>;
using MmaManyRows = MmaCore<128, 128, 2, 4, 3>;

}  // namespace kernels::cuda
