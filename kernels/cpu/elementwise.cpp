#include <cstring>
#include <string>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/targets.h"
#include "kernels/cpu/tiles.h"
#include "kernels/cpu/typed_weight.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/elementwise.cpp"
#include "hwy/foreach_target.h"
#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kernels::cpu {
namespace HWY_NAMESPACE {

gpu::Status embedding_impl(gpu::HostStream& stream, const RowBatch& batch, const EmbeddingArgs& args) {
  const auto y = gpu::typed<float>(args.y);
  const std::int64_t cols = args.table.cols().n;
  const auto row_of = [&](std::int64_t r, const auto& table) {
    const std::int32_t token = args.ids.row(Rows{batch.row_slot.base[r]})[batch.row_position.base[r]];
    float* to = y.row(Rows{r});
    const auto* from = table.row(Rows{token});
    for_lanes(cols, [&](auto at, std::int64_t i) HWY_ATTR { at.store(at.load(from + i), to + i); });
  };
  return with_weight_type(args.table.matrix, [&](const auto& table) {
    return parallel_ranges(stream, "embedding", batch.num_rows.n, static_cast<double>(cols) * 0.2,
                           [&](std::int64_t first, std::int64_t last) {
                             for (std::int64_t r = first; r < last; ++r) row_of(r, table);
                           });
  });
}

gpu::Status add_impl(gpu::HostStream& stream, const AddArgs& args) {
  const auto y = gpu::typed<float>(args.y);
  const auto x = gpu::typed<float>(args.x);
  return parallel_ranges(stream, "add", y.rows.n, static_cast<double>(y.cols.n) * 0.2,
                         [&](std::int64_t first, std::int64_t last) {
                           for (std::int64_t r = first; r < last; ++r) {
                             float* to = y.row(Rows{r});
                             const float* from = x.row(Rows{r});
                             for_lanes(y.cols.n, [&](auto at, std::int64_t i) HWY_ATTR {
                               at.store(add(at.load(to + i), at.load(from + i)), to + i);
                             });
                           }
                         });
}

gpu::Status scaled_silu_impl(gpu::HostStream& stream, const ScaledSiluArgs& args) {
  const auto y = gpu::typed<float>(args.y);
  const auto x = gpu::typed<float>(args.x);
  return parallel_ranges(stream, "scaled_silu", y.rows.n, static_cast<double>(y.cols.n) * 0.6,
                         [&](std::int64_t first, std::int64_t last) {
                           const Lanes16 scale = splat(args.scale);
                           for (std::int64_t r = first; r < last; ++r) {
                             float* to = y.row(Rows{r});
                             const float* from = x.row(Rows{r});
                             for_lanes(y.cols.n, [&](auto at, std::int64_t i) HWY_ATTR {
                               at.store(silu(mul(at.load(from + i), scale)), to + i);
                             });
                           }
                         });
}

gpu::Status swiglu_impl(gpu::HostStream& stream, const SwigluArgs& args) {
  const auto y = gpu::typed<float>(args.y);
  const auto gate = gpu::typed<float>(args.gate);
  const auto up = gpu::typed<float>(args.up);
  return parallel_ranges(stream, "swiglu", y.rows.n, static_cast<double>(y.cols.n) * 0.7,
                         [&](std::int64_t first, std::int64_t last) {
                           for (std::int64_t r = first; r < last; ++r) {
                             float* to = y.row(Rows{r});
                             const float* g = gate.row(Rows{r});
                             const float* u = up.row(Rows{r});
                             for_lanes(y.cols.n, [&](auto at, std::int64_t i) HWY_ATTR {
                               at.store(mul(silu(at.load(g + i)), at.load(u + i)), to + i);
                             });
                           }
                         });
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kernels::cpu {
HWY_EXPORT(embedding_impl);
HWY_EXPORT(add_impl);
HWY_EXPORT(scaled_silu_impl);
HWY_EXPORT(swiglu_impl);

namespace {
gpu::Status quantized_embedding(gpu::HostStream& stream, const RowBatch& batch, const EmbeddingArgs& args) {
  const auto y = gpu::typed<float>(args.y);
  const double cost = static_cast<double>(y.cols.n) * 2.0;
  return parallel_ranges(stream, "embedding", batch.num_rows.n, cost,
                         [&](std::int64_t first, std::int64_t last) {
                           for (std::int64_t r = first; r < last; ++r) {
                             const Rows slot{batch.row_slot.base[r]};
                             const std::int32_t token = args.ids.row(slot)[batch.row_position.base[r]];
                             dequantize_row(args.table.quantized, Rows{token}, y.row(Rows{r}));
                           }
                         });
}
}  // namespace

gpu::Status embedding(gpu::HostStream& stream, const RowBatch& batch, const EmbeddingArgs& args) {
  for (std::int64_t r = 0; r < batch.num_rows.n; ++r) {
    const std::int32_t slot = batch.row_slot.base[r];
    const std::int32_t position = batch.row_position.base[r];
    if (slot < 0 || slot >= args.ids.rows.n || position < 0 || position >= args.ids.cols.n) {
      return gpu::refused("embedding: row " + std::to_string(r) + " is slot " + std::to_string(slot) +
                          ", position " + std::to_string(position) + "; ids is [" +
                          std::to_string(args.ids.rows.n) + ", " + std::to_string(args.ids.cols.n) + "]");
    }
    const std::int32_t token = args.ids.row(Rows{slot})[position];
    if (token < 0 || token >= args.table.rows().n) {
      return gpu::refused("embedding: row " + std::to_string(r) + " is token " + std::to_string(token) +
                          "; the table has " + std::to_string(args.table.rows().n) + " rows");
    }
  }
  if (args.table.is_quantized()) return quantized_embedding(stream, batch, args);
  return HWY_DYNAMIC_DISPATCH(embedding_impl)(stream, batch, args);
}

gpu::Status gather_rows(gpu::HostStream& stream, const GatherRowsArgs& args) {
  const std::int64_t n = args.rows.size.n;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int32_t row = args.rows.base[i];
    if (row < 0 || row >= args.x.rows.n) {
      return gpu::refused("gather_rows: rows[" + std::to_string(i) + "] is " + std::to_string(row) +
                          "; x has " + std::to_string(args.x.rows.n) + " rows");
    }
  }
  const auto width = static_cast<std::size_t>(bytes_of(args.x.dtype, args.x.cols).n);
  return parallel_ranges(stream, "gather_rows", n, static_cast<double>(width) * 0.05,
                         [&](std::int64_t first, std::int64_t last) {
                           for (std::int64_t i = first; i < last; ++i) {
                             std::memcpy(args.y.from_row(Rows{i}).base,
                                         args.x.from_row(Rows{args.rows.base[i]}).base, width);
                           }
                         });
}

gpu::Status add(gpu::HostStream& stream, const AddArgs& args) {
  return HWY_DYNAMIC_DISPATCH(add_impl)(stream, args);
}
gpu::Status scaled_silu(gpu::HostStream& stream, const ScaledSiluArgs& args) {
  return HWY_DYNAMIC_DISPATCH(scaled_silu_impl)(stream, args);
}
gpu::Status swiglu(gpu::HostStream& stream, const SwigluArgs& args) {
  return HWY_DYNAMIC_DISPATCH(swiglu_impl)(stream, args);
}

}  // namespace kernels::cpu
#endif
