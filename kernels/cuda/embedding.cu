#include "kernels/cuda/device/row_copy.cuh"

namespace kernels::cuda {
namespace {

/// The token at a row's place.
struct TokenOf {
  const std::int32_t* row_slot;
  const std::int32_t* row_position;
  MatrixView<const std::int32_t> ids;
  std::int64_t vocabulary;
  gpu::FaultRecord* faults;

  __device__ std::int64_t operator()(std::int64_t r, int) const {
    const std::int32_t slot = row_slot[r], position = row_position[r];
    if (slot < 0 || slot >= ids.rows.n) return missing(gpu::ValueFault::embedding_place, r, slot);
    if (position < 0 || position >= ids.cols.n) {
      return missing(gpu::ValueFault::embedding_place, r, position);
    }
    const std::int32_t token = ids.row(Rows{slot})[position];
    if (token < 0 || token >= vocabulary) return missing(gpu::ValueFault::embedding_token, r, token);
    return token;
  }
  __device__ std::int64_t missing(gpu::ValueFault fault, std::int64_t r, std::int32_t value) const {
    report(faults, fault, r, value);
    return -1;
  }
};

struct GatheredRow {
  const std::int32_t* rows;
  std::int64_t num_rows;
  gpu::FaultRecord* faults;

  __device__ std::int64_t operator()(std::int64_t r, int) const {
    const std::int32_t row = rows[r];
    if (row >= 0 && row < num_rows) return row;
    report(faults, gpu::ValueFault::gathered_row, r, row);
    return -1;
  }
};

}  // namespace

gpu::Status embedding(Context& context, const RowBatch& batch, const EmbeddingArgs& args) {
  if (batch.num_rows.n == 0) return gpu::Done{};
  const TokenOf token{batch.row_slot.base, batch.row_position.base, args.ids, args.table.rows().n,
                      context.stream.faults()};
  return copy_rows(context, "embedding", args.y, args.table, 1, token);
}

gpu::Status gather_rows(Context& context, const GatherRowsArgs& args) {
  if (args.rows.size.n == 0) return gpu::Done{};
  const GatheredRow row{args.rows.base, args.x.rows.n, context.stream.faults()};
  return with_activation(args.y.dtype, [&](auto zero) {
    using T = decltype(zero);
    return copy_rows<T, T>(context, "gather_rows", args.y, args.x, 1, row);
  });
}

}  // namespace kernels::cuda
