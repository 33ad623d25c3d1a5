#pragma once

#include "kernels/batch.h"
#include "kernels/cuda/device/values.cuh"

/// Products of tiles, y[m, n] = sum_k x[m, k] w[n, k], for one GEMM or many grouped ones. Both operands pass
/// through shared memory in stages of 128 bytes of K a row, copied in the background. What a value's bits
/// depend on is its chain over K alone (gemm_mma.cuh, gemm_fma.cuh: one ascending chain an element, K padded
/// with zeros to a whole stage), so tiles of any shape give the same bits.
namespace kernels::cuda {

inline constexpr int kStageRowBytes = 128;
inline constexpr int kPiecesPerRow = kStageRowBytes / 16;
/// Elements of K in a stage.
template <class T>
inline constexpr int kStageK = kStageRowBytes / static_cast<int>(sizeof(T));

/// Where piece `piece` (16 bytes) of row `row` lies in a staged operand. Eight neighbouring rows have one
/// piece in eight different groups of banks: reading a column of pieces (ldmatrix, or 16 bytes a thread)
/// meets no conflict.
__device__ inline int staged_piece(int row, int piece) {
  return row * kStageRowBytes + ((piece ^ (row & (kPiecesPerRow - 1))) * 16);
}

/// The shape of a block's work. A core multiplies staged operands and keeps the sums in registers.
template <class T_, int kBlockM_, int kBlockN_, int kThreads_, int kNumStages_>
struct TileShape {
  using T = T_;
  static constexpr int kBlockM = kBlockM_, kBlockN = kBlockN_, kThreads = kThreads_, kNumStages = kNumStages_;
  static constexpr int kStageBytes = (kBlockM + kBlockN) * kStageRowBytes;
  static constexpr int kSharedBytes = kNumStages * kStageBytes;
};

/// Rows [first, first + num_rows) of what a tile reads and writes, and the weight rows that multiply them.
struct TileRows {
  std::int64_t first = 0;
  int num_rows = 0;
  std::int64_t first_weight = 0;
};

/// Copies one operand's rows of one stage after another. Each thread always copies the same piece of the same
/// rows, so the rows' addresses are computed once.
template <class T, int kNumRows, int kThreads>
class OperandCopy {
 public:
  /// row(i) is the address of row i, for i < num_rows; other rows are zeros.
  template <class RowOf>
  __device__ OperandCopy(int num_rows, const RowOf& row) : num_rows_(num_rows) {
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      rows_[i] = row(first_row() + i * kRowsAtOnce < num_rows ? first_row() + i * kRowsAtOnce : 0);
    }
  }
  /// Elements [k, k + kStageK) of K; those from `num_k` on are zeros.
  __device__ void start(unsigned char* stage, std::int64_t k, std::int64_t num_k) const {
    const std::int64_t at = k + piece() * kPer16<T>;
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      const int row = first_row() + i * kRowsAtOnce;
      const bool valid = row < num_rows_ && at < num_k;
      if (kNumRows % kRowsAtOnce == 0 || row < kNumRows) {
        copy_async_16(stage + staged_piece(row, piece()), rows_[i] + (valid ? at : 0), valid);
      }
    }
  }

 private:
  static constexpr int kRowsAtOnce = kThreads / kPiecesPerRow;
  static constexpr int kPerThread = (kNumRows + kRowsAtOnce - 1) / kRowsAtOnce;
  __device__ static int first_row() { return static_cast<int>(threadIdx.x) / kPiecesPerRow; }
  __device__ static int piece() { return static_cast<int>(threadIdx.x) % kPiecesPerRow; }

  int num_rows_;
  const T* rows_[kPerThread];
};

/// Where a core puts its sums: row m and column n of the tile, which may reach beyond y.
template <class TY, class Source>
struct TileOutput {
  const Source& source;
  const TileRows& tile;
  TY* columns;  // y at row 0 and the tile's first column
  std::int64_t pitch;
  int num_columns;

  __device__ void one(int m, int n, float value) const {
    if (m < tile.num_rows && n < num_columns) *place(m, n) = from_float<TY>(value);
  }
  /// Columns n (even) and n + 1. Eight or four bytes a thread: neighbours fill a sector between them.
  __device__ void two(int m, int n, float first, float second) const {
    if (m >= tile.num_rows || n >= num_columns) return;
    if (n + 1 == num_columns) return one(m, n, first);
    if constexpr (sizeof(TY) == 4) {
      *reinterpret_cast<float2*>(place(m, n)) = make_float2(first, second);
    } else {
      *reinterpret_cast<std::uint32_t*>(place(m, n)) =
          std::uint32_t{from_float<TY>(first).bits} | std::uint32_t{from_float<TY>(second).bits} << 16;
    }
  }

 private:
  __device__ TY* place(int m, int n) const { return columns + source.y_row(tile.first + m) * pitch + n; }
};

/// One tile: rows as `Source` maps them, weight rows from tile column `block_n` on. Called by the whole
/// block. Source: x_row(i) and y_row(i) of row i. `columns` is N of one product.
template <class Core, class TY, class Source>
__device__ void multiply_tile(const Source& source, const TileRows& tile, int block_n, std::int64_t columns,
                              const MatrixView<const typename Core::T>& w, const MatrixView<TY>& y) {
  using T = typename Core::T;
  unsigned char* const shared = dynamic_shared();
  const std::int64_t first_n = std::int64_t{block_n} * Core::kBlockN;
  const int num_n = static_cast<int>(columns - first_n < Core::kBlockN ? columns - first_n : Core::kBlockN);
  const OperandCopy<T, Core::kBlockM, Core::kThreads> x_copy(
      tile.num_rows, [&](int i) { return source.x_row(tile.first + i); });
  const OperandCopy<T, Core::kBlockN, Core::kThreads> w_copy(
      num_n, [&](int i) { return w.base + (tile.first_weight + first_n + i) * w.pitch.n; });

  const std::int64_t num_k = w.cols.n;
  const int num_stages = static_cast<int>((num_k + kStageK<T> - 1) / kStageK<T>);
  const auto start = [&](int stage) {
    if (stage < num_stages) {
      unsigned char* const place = shared + stage % Core::kNumStages * Core::kStageBytes;
      x_copy.start(place, std::int64_t{stage} * kStageK<T>, num_k);
      w_copy.start(place + Core::kBlockM * kStageRowBytes, std::int64_t{stage} * kStageK<T>, num_k);
    }
    commit_copies();  // an empty group keeps the count
  };
#pragma unroll
  for (int stage = 0; stage < Core::kNumStages - 1; ++stage) start(stage);

  Core core;
  for (int stage = 0; stage < num_stages; ++stage) {
    wait_copies<Core::kNumStages - 2>();
    __syncthreads();  // the stage is there, and everybody left the one that is filled next
    start(stage + Core::kNumStages - 1);
    const unsigned char* const place = shared + stage % Core::kNumStages * Core::kStageBytes;
    core.accumulate(place, place + Core::kBlockM * kStageRowBytes);
  }
  core.write(TileOutput<TY, Source>{source, tile, y.base + first_n, y.pitch.n, num_n});
}

}  // namespace kernels::cuda
