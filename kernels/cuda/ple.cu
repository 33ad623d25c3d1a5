#include <cmath>

#include "kernels/cuda/device/reduce.cuh"
#include "kernels/cuda/device/row_copy.cuh"
#include "kernels/ngram_hash.h"

namespace kernels::cuda {
namespace {

struct Ngrams {
  MatrixView<std::int64_t> rows;
  MatrixView<const std::int32_t> ids;
  NgramConstants hash;
  const std::int32_t* row_slot;
  const std::int32_t* row_position;
  gpu::FaultRecord* faults;
};

/// A thread for each (row, head). Heads of one order hash the same few ids again, which costs less than
/// sharing them.
__global__ void ngram_rows_kernel(Ngrams args) {
  const std::int64_t index = std::int64_t{blockIdx.x} * kPieceThreads + threadIdx.x;
  if (index >= args.rows.rows.n * args.rows.cols.n) return;
  const std::int64_t r = index / args.rows.cols.n;
  const int head = static_cast<int>(index % args.rows.cols.n);
  const std::int32_t slot = args.row_slot[r], position = args.row_position[r];
  const bool slot_fits = slot >= 0 && slot < args.ids.rows.n;
  if (!slot_fits || position < 0 || position >= args.ids.cols.n) {
    report(args.faults, gpu::ValueFault::embedding_place, r, slot_fits ? position : slot);
    return;
  }
  NgramMix mix(args.hash, args.ids.row(Rows{slot}), position);
  std::uint64_t mixed = 0;
  for (int order = head / args.hash.heads_per_ngram + 2; order > 1; --order) mixed = mix.extend();
  args.rows.row(Rows{r})[head] = ngram_row(args.hash, mixed, head);
}

struct TableRow {
  MatrixView<const std::int64_t> rows;
  std::int64_t num_rows;
  gpu::FaultRecord* faults;

  __device__ std::int64_t operator()(std::int64_t r, int head) const {
    const std::int64_t row = rows.row(Rows{r})[head];
    if (row >= 0 && row < num_rows) return row;
    report(faults, gpu::ValueFault::table_row, r, row);
    return -1;
  }
};

constexpr int kGateThreads = 128;

/// The magnitude is clamped before the square root, so it is 0 or at least 1e-3.
__device__ float signed_root(float score) {
  return score == 0.0F ? 0.0F : copysignf(sqrtf(fmaxf(fabsf(score), 1e-6F)), score);
}

/// A block for each (row, stream). Each thread adds up its pieces in ascending order, then the block in its
/// fixed tree. Bytes: key, query, value and gv once (value from the L2 cache for all streams but one).
template <class T, bool kWide>
__global__ void ple_gate_kernel(MatrixView<T> gv, MatrixView<const T> key, MatrixView<const T> query,
                                MatrixView<const T> value, float scale) {
  __shared__ float partial[kGateThreads / 32];
  const std::int64_t r = blockIdx.x, hidden = value.cols.n, first = blockIdx.y * hidden;
  float sum = 0.0F;
#pragma unroll 2
  for (std::int64_t column = threadIdx.x * kPiece; column < hidden; column += kGateThreads * kPiece) {
    const int count = values_left(hidden, column);
    float k[kPiece], q[kPiece];
    load_piece<kWide>(key.row(Rows{r}) + first + column, count, k);
    load_piece<kWide>(query.row(Rows{r}) + first + column, count, q);
#pragma unroll
    for (int i = 0; i < kPiece; ++i) sum = fmaf(k[i], q[i], sum);
  }
  const float gate = sigmoid(signed_root(block_sum<kGateThreads>(sum, partial) * scale));
  for (std::int64_t column = threadIdx.x * kPiece; column < hidden; column += kGateThreads * kPiece) {
    const int count = values_left(hidden, column);
    float v[kPiece];
    load_piece<kWide>(value.row(Rows{r}) + column, count, v);
#pragma unroll
    for (int i = 0; i < kPiece; ++i) v[i] *= gate;
    store_piece<kWide>(gv.row(Rows{r}) + first + column, count, v);
  }
}

}  // namespace

gpu::Status ngram_rows(Context& context, const RowBatch& batch, const NgramRowsArgs& args) {
  if (batch.num_rows.n == 0) return gpu::Done{};
  const std::int64_t blocks = gpu::ceil_div(args.rows.rows.n * args.rows.cols.n, kPieceThreads);
  const Ngrams ngrams{args.rows,
                      args.ids,
                      {args.multipliers.base, args.sizes.base, args.offsets.base, args.ngram_size,
                       args.heads_per_ngram, args.eos},
                      batch.row_slot.base,
                      batch.row_position.base,
                      context.stream.faults()};
  return launch(context.stream, "ngram_rows", Grid{{to_grid(blocks)}, {kPieceThreads}}, ngram_rows_kernel,
                ngrams);
}

gpu::Status gather_table(Context& context, const GatherTableArgs& args) {
  if (args.y.rows.n == 0) return gpu::Done{};
  const TableRow row{args.rows, args.table.rows().n, context.stream.faults()};
  return copy_rows(context, "gather_table", args.y, args.table, args.rows.cols.n, row);
}

gpu::Status ple_gate(Context& context, const PleGateArgs& args) {
  const Elements hidden = args.value.cols;
  const bool wide = in_pieces(args.gv, hidden) && in_pieces(args.key, hidden) &&
                    in_pieces(args.query, hidden) && in_pieces(args.value, hidden);
  const Grid grid{{to_grid(args.value.rows.n), static_cast<unsigned>(args.num_streams)}, {kGateThreads}};
  return with_activation(args.value.dtype, [&](auto zero) {
    using T = decltype(zero);
    return with_width(wide, [&](auto width) {
      return launch(context.stream, "ple_gate", grid, ple_gate_kernel<T, decltype(width)::value>,
                    gpu::typed<T>(args.gv), gpu::typed<T>(args.key), gpu::typed<T>(args.query),
                    gpu::typed<T>(args.value), 1.0F / std::sqrt(static_cast<float>(hidden.n)));
    });
  });
}

}  // namespace kernels::cuda
