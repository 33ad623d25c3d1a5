#include <algorithm>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/page_rows.h"
#include "kernels/cpu/tiles.h"

namespace kernels::cpu {

gpu::Status kv_append(gpu::HostStream& stream, const RowBatch& batch, const KvAppendArgs& args) {
  const MatrixView<const float> k = gpu::typed<float>(args.k), v = gpu::typed<float>(args.v);
  const MatrixView<float> k_cache = gpu::typed<float>(args.k_cache),
                          v_cache = gpu::typed<float>(args.v_cache);
  const double cost = 0.2 * static_cast<double>(k.cols.n);
  return parallel_ranges(
      stream, "kv_append", batch.num_rows.n, cost, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t r = first; r < last; ++r) {
          const gpu::Rows to{page_row(args.pages, batch.row_slot.base[r], batch.row_position.base[r])};
          std::copy_n(k.row({r}), k.cols.n, k_cache.row(to));
          std::copy_n(v.row({r}), v.cols.n, v_cache.row(to));
        }
      });
}

}  // namespace kernels::cpu
