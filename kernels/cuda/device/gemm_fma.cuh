#pragma once

#include "kernels/cuda/device/gemm_tile.cuh"

namespace kernels::cuda {

/// f32 operands, one fused multiply-add after another in ascending k: no tensor core, hence no TF32. 256
/// threads, each with every sixteenth row and every sixteenth column from its own on.
template <int kBlockM, int kNumStages>
class FmaCore : public TileShape<float, kBlockM, 64, 256, kNumStages> {
 public:
  __device__ FmaCore() {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int j = 0; j < kColumns; ++j) sums_[i][j] = 0.0F;
    }
  }

  __device__ void accumulate(const unsigned char* x, const unsigned char* w) {
#pragma unroll
    for (int piece = 0; piece < kPiecesPerRow; ++piece) {
      float a[kRows][4];
#pragma unroll
      for (int i = 0; i < kRows; ++i) load_piece(x, row() + 16 * i, piece, a[i]);
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
        float b[4];
        load_piece(w, column() + 16 * j, piece, b);
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
#pragma unroll
          for (int k = 0; k < 4; ++k) sums_[i][j] = fmaf(a[i][k], b[k], sums_[i][j]);
        }
      }
    }
  }

  template <class Output>
  __device__ void write(const Output& output) const {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int j = 0; j < kColumns; ++j) output.one(row() + 16 * i, column() + 16 * j, sums_[i][j]);
    }
  }

 private:
  static constexpr int kRows = kBlockM / 16, kColumns = 4;

  __device__ static int row() { return static_cast<int>(threadIdx.x) / 16; }
  __device__ static int column() { return static_cast<int>(threadIdx.x) % 16; }
  __device__ static void load_piece(const unsigned char* operand, int row, int piece, float (&to)[4]) {
    load_16(reinterpret_cast<const float*>(operand + staged_piece(row, piece)), to);
  }

  float sums_[kRows][kColumns];
};

using FmaFewRows = FmaCore<16, 4>;
using FmaManyRows = FmaCore<128, 3>;

}  // namespace kernels::cuda
