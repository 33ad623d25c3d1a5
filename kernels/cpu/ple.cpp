#include "kernels/ple.h"

#include <bit>
#include <string>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/tiles.h"
#include "kernels/ngram_hash.h"
#include "kernels/widen.h"

namespace kernels::cpu {
namespace {

float widen(float value) { return value; }
float widen(gpu::bf16 value) { return std::bit_cast<float>(std::uint32_t{value.bits} << 16); }
float widen(gpu::f16 value) { return widen_half(value.bits); }

template <class T>
gpu::Status gather(gpu::HostStream& stream, const GatherTableArgs& args) {
  const MatrixView<float> y = gpu::typed<float>(args.y);
  const MatrixView<const T> table = gpu::typed<T>(args.table.matrix);
  const std::int64_t num_rows = args.rows.rows.n;
  const std::int64_t dim = table.cols.n;
  const double cost = static_cast<double>(args.rows.cols.n) * (50.0 + 0.2 * static_cast<double>(dim));
  return parallel_ranges(stream, "gather_table", num_rows, cost, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t r = first; r < last; ++r) {
      for (std::int64_t head = 0; head < args.rows.cols.n; ++head) {
        const T* from = table.row({args.rows.row({r})[head]});
        float* to = y.row({r}) + head * dim;
        for (std::int64_t i = 0; i < dim; ++i) to[i] = widen(from[i]);
      }
    }
  });
}

gpu::Status gather_quantized(gpu::HostStream& stream, const GatherTableArgs& args) {
  const MatrixView<float> y = gpu::typed<float>(args.y);
  const std::int64_t dim = args.table.cols().n, heads = args.rows.cols.n;
  const double cost = static_cast<double>(heads) * (50.0 + 2.0 * static_cast<double>(dim));
  return parallel_ranges(
      stream, "gather_table", args.rows.rows.n, cost, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t r = first; r < last; ++r) {
          for (std::int64_t head = 0; head < heads; ++head) {
            dequantize_row(args.table.quantized, {args.rows.row({r})[head]}, y.row({r}) + head * dim);
          }
        }
      });
}

}  // namespace

gpu::Status ngram_rows(gpu::HostStream& stream, const RowBatch& batch, const NgramRowsArgs& args) {
  const NgramConstants hash{args.multipliers.base, args.sizes.base,      args.offsets.base,
                            args.ngram_size,       args.heads_per_ngram, args.eos};
  const std::int64_t num_rows = batch.num_rows.n;
  const double cost = 10.0 * static_cast<double>(args.rows.cols.n);
  return parallel_ranges(stream, "ngram_rows", num_rows, cost, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t r = first; r < last; ++r) {
      ngram_rows_at(hash, args.ids.row({batch.row_slot.base[r]}), batch.row_position.base[r],
                    args.rows.row({r}));
    }
  });
}

gpu::Status gather_table(gpu::HostStream& stream, const GatherTableArgs& args) {
  for (std::int64_t r = 0; r < args.rows.rows.n; ++r) {
    for (std::int64_t head = 0; head < args.rows.cols.n; ++head) {
      const std::int64_t id = args.rows.row({r})[head];
      if (id >= 0 && id < args.table.rows().n) continue;
      return gpu::refused("gather_table: row " + std::to_string(r) + " head " + std::to_string(head) +
                          ": id " + std::to_string(id) + " outside the table of " +
                          std::to_string(args.table.rows().n) + " rows");
    }
  }
  if (args.table.is_quantized()) return gather_quantized(stream, args);
  switch (args.table.matrix.dtype) {
    case gpu::DType::f32:
      return gather<float>(stream, args);
    case gpu::DType::f16:
      return gather<gpu::f16>(stream, args);
    case gpu::DType::bf16:
      return gather<gpu::bf16>(stream, args);
    default:
      return gpu::refused("gather_table: table is " + std::string(gpu::to_string(args.table.matrix.dtype)));
  }
}

}  // namespace kernels::cpu
