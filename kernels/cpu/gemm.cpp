#include <algorithm>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/targets.h"
#include "kernels/cpu/tiles.h"
#include "kernels/cpu/typed_weight.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/gemm.cpp"
#include "hwy/foreach_target.h"
#include "kernels/cpu/gemm-inl.h"
#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kernels::cpu {
namespace HWY_NAMESPACE {

/// Rows of x in one tile of work: what stays in a core's cache together with a strip of weights.
inline std::int64_t rows_per_tile(std::int64_t rows, std::int64_t k) {
  constexpr std::int64_t kCacheFloats = 96 * 1024;
  constexpr std::int64_t kMaxRows = 64;
  const std::int64_t fitting = std::clamp<std::int64_t>(gpu::round_down(kCacheFloats / k, 8), 8, kMaxRows);
  return std::min(rows, fitting);
}

template <class T>
gpu::Status gemm_typed(gpu::HostStream& stream, const GemmArgs& args, const MatrixView<const T>& w) {
  const auto x = gpu::typed<float>(args.x);
  const auto y = gpu::typed<float>(args.y);
  const std::int64_t k = x.cols.n;
  const std::int64_t block = rows_per_tile(x.rows.n, k);
  const std::int64_t num_blocks = gpu::ceil_div(x.rows.n, block);
  // A column's cost: reading its weights (about 8 bytes a nanosecond a core) or its arithmetic (about 20
  // fma), whichever is more.
  const double column_cost = std::max(static_cast<double>(k * std::int64_t{sizeof(T)}) / 8.0,
                                      static_cast<double>(k * block) / 20.0) +
                             2.0 * static_cast<double>(block);
  const std::int64_t columns = gpu::round_up(units_per_tile(w.rows.n, column_cost), kTileSums);
  const std::int64_t num_strips = gpu::ceil_div(w.rows.n, columns);
  const auto body = [&](std::int64_t tile_index) {
    constexpr std::int64_t kMaxBlock = 64;
    const float* x_rows[kMaxBlock];
    float* y_rows[kMaxBlock];
    const std::int64_t first_row = tile_index / num_strips * block;
    const std::int64_t num_rows = std::min(block, x.rows.n - first_row);
    for (std::int64_t r = 0; r < num_rows; ++r) {
      x_rows[r] = x.row(Rows{first_row + r});
      y_rows[r] = y.row(Rows{first_row + r});
    }
    const std::int64_t first = tile_index % num_strips * columns;
    dot_rows(x_rows, y_rows, num_rows, w.base, w.pitch.n, k, first, std::min(first + columns, w.rows.n));
  };
  return stream.parallel(args.name, num_blocks * num_strips,
                         [&body](std::int64_t tile_index) { body(tile_index); });
}

gpu::Status gemm_impl(gpu::HostStream& stream, const GemmArgs& args) {
  return with_weight_type(args.w.matrix, [&](const auto& w) { return gemm_typed(stream, args, w); });
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kernels::cpu {
HWY_EXPORT(gemm_impl);

gpu::Status gemm(gpu::HostStream& stream, const GemmArgs& args) {
  if (args.x.rows.n == 0 || args.w.matrix.rows.n == 0) return gpu::Done{};
  return HWY_DYNAMIC_DISPATCH(gemm_impl)(stream, args);
}

}  // namespace kernels::cpu
#endif
