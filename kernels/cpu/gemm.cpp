#include <algorithm>
#include <array>
#include <span>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/quantized_rows.h"
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

void float_tile_impl(const float* const* x, float* const* y, std::int64_t rows, const ConstMatrix& weight,
                     std::int64_t first, std::int64_t last) {
  with_weight_type(weight,
                   [&](const auto& w) { dot_rows(x, y, rows, w.base, w.pitch.n, w.cols.n, first, last); });
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kernels::cpu {
namespace {

HWY_EXPORT(float_tile_impl);

constexpr std::int64_t kMaxBlock = 256;
/// Products that run as one parallel region; a longer group is several.
constexpr std::size_t kMaxProducts = 8;

/// Rows of x in one tile of work: what stays in a core's cache together with a strip of weights.
std::int64_t rows_per_tile(std::int64_t rows, std::int64_t k, bool quantized) {
  const std::int64_t cached = quantized ? 320 * 1024 : 96 * 1024;  // values
  const std::int64_t most = quantized ? kMaxBlock : 64;
  return std::min(rows, std::clamp<std::int64_t>(gpu::round_down(cached / k, 8), 8, most));
}

/// One product of a group, cut into blocks of rows and strips of columns.
struct Product {
  MatrixView<float> y;
  const Weight* w = nullptr;
  std::int64_t block = 0, columns = 0, num_strips = 0, num_tiles = 0;
};

Product cut(const MatrixView<const float>& x, const GemmGroupArgs::Output& output) {
  const bool quantized = output.w.is_quantized();
  const std::int64_t k = x.cols.n, n = output.w.rows().n;
  Product product{gpu::typed<float>(output.y), &output.w, rows_per_tile(x.rows.n, k, quantized), 0, 0, 0};
  const auto block = static_cast<double>(product.block);
  // A column's cost: reading its weights (about 8 bytes a nanosecond a core) or its arithmetic (about 20 fma
  // or 120 int8 products), whichever is more.
  const std::int64_t bytes = quantized ? row_bytes(output.w.quantized.format, output.w.cols()).n
                                       : bytes_of(output.w.matrix.dtype, output.w.cols()).n;
  const double arithmetic = static_cast<double>(k) * block / (quantized ? 120.0 : 20.0);
  const double column_cost = std::max(static_cast<double>(bytes) / 8.0, arithmetic) + 2.0 * block;
  // Strips are claimed one by one: short ones share an operation evenly.
  constexpr double kMinStripCost = 3000.0;
  product.columns = gpu::round_up(units_per_tile(n, column_cost, kMinStripCost), kTileRowsPacked);
  product.num_strips = gpu::ceil_div(n, product.columns);
  product.num_tiles = product.num_strips * gpu::ceil_div(x.rows.n, product.block);
  return product;
}

void run_tile(const MatrixView<const float>& x, const QuantizedRow* x_quantized, const Product& product,
              std::int64_t tile) {
  const float* x_rows[kMaxBlock];
  float* y_rows[kMaxBlock];
  const std::int64_t first_row = tile / product.num_strips * product.block;
  const std::int64_t rows = std::min(product.block, x.rows.n - first_row);
  const std::int64_t first = tile % product.num_strips * product.columns;
  const std::int64_t last = std::min(first + product.columns, product.w->rows().n);
  for (std::int64_t r = 0; r < rows; ++r) y_rows[r] = product.y.row(Rows{first_row + r});
  if (product.w->is_quantized()) {
    return product_rows(x_quantized + first_row, y_rows, rows, product.w->quantized, first, last, 0);
  }
  for (std::int64_t r = 0; r < rows; ++r) x_rows[r] = x.row(Rows{first_row + r});
  HWY_DYNAMIC_DISPATCH(float_tile_impl)(x_rows, y_rows, rows, product.w->matrix, first, last);
}

/// The products of one x as one parallel region.
gpu::Status run_group(gpu::HostStream& stream, const MatrixView<const float>& x,
                      const QuantizedRow* x_quantized, std::span<const GemmGroupArgs::Output> outputs) {
  std::array<Product, kMaxProducts> products;
  std::int64_t num_tiles = 0;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    products[i] = cut(x, outputs[i]);
    num_tiles += products[i].num_tiles;
  }
  const auto body = [&](std::int64_t tile) {
    const Product* product = products.data();
    for (; tile >= product->num_tiles; ++product) tile -= product->num_tiles;
    run_tile(x, x_quantized, *product, tile);
  };
  return stream.parallel(outputs[0].name, num_tiles, [&body](std::int64_t tile) { body(tile); });
}

}  // namespace

gpu::Status gemm_group(gpu::HostStream& stream, const GemmGroupArgs& args) {
  const auto x = gpu::typed<float>(args.x);
  if (x.rows.n == 0) return gpu::Done{};
  thread_local QuantizedRows quantized;
  if (std::any_of(args.outputs.begin(), args.outputs.end(),
                  [](const GemmGroupArgs::Output& output) { return output.w.is_quantized(); })) {
    RETURN_IF_ERROR(quantized.quantize(stream, x));
  }
  for (std::size_t first = 0; first < args.outputs.size(); first += kMaxProducts) {
    const std::size_t count = std::min(kMaxProducts, args.outputs.size() - first);
    RETURN_IF_ERROR(run_group(stream, x, quantized.rows(), args.outputs.subspan(first, count)));
  }
  return gpu::Done{};
}

gpu::Status gemm(gpu::HostStream& stream, const GemmArgs& args) {
  if (args.x.rows.n == 0 || args.w.rows().n == 0) return gpu::Done{};
  const GemmGroupArgs::Output output{args.y, args.w, args.name};
  return gemm_group(stream, {args.x, {&output, 1}, args.form});
}

}  // namespace kernels::cpu
#endif
