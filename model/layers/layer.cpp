#include "model/layers/layer.h"

#include "model/runner/runner.h"

namespace model {

void StepContext::show(LayerIndex layer, const char* name, ConstMatrix value) const {
  if (probe == nullptr) return;
  std::string full = layer < 0 ? std::string() : "layer" + std::to_string(layer);
  if (!full.empty() && *name != '\0') full += '.';
  probe->see(full + name, value, batch);
}

Matrix Scratch::matrix(DType dtype, std::int32_t per_row, std::int32_t cols, const char* what) {
  if (!status_.ok()) return {};
  auto taken = context_.arena.matrix(dtype, context_.capacity * per_row, Elements{cols}, what);
  if (!taken.ok()) {
    status_ = std::move(taken).error();
    return {};
  }
  return taken->first_rows(context_.batch.num_rows * per_row);
}

gpu::VectorView<std::int32_t> Scratch::indices(std::int32_t per_row, std::int32_t more, const char* what) {
  if (!status_.ok()) return {};
  const auto count = [&](Rows rows) { return Elements{rows.n * per_row + more}; };
  auto taken = context_.arena.take(gpu::bytes_of(DType::i32, count(context_.capacity)), what);
  if (!taken.ok()) {
    status_ = std::move(taken).error();
    return {};
  }
  return {reinterpret_cast<std::int32_t*>(*taken), count(context_.batch.num_rows)};
}

gpu::Status project(StepContext& context, Matrix y, ConstMatrix x, const kernels::Weight& w,
                    const char* name) {
  return context.ops.gemm(context.stream, {y, x, w, context.batch.form, name});
}

gpu::Status project(StepContext& context, ConstMatrix x,
                    std::span<const kernels::GemmGroupArgs::Output> outputs) {
  return context.ops.gemm_group(context.stream, {x, outputs, context.batch.form});
}

StateSpan rows_span(Matrix matrix, Rows first, Rows count) {
  return {matrix.from_row(first).base, gpu::bytes_of(matrix.dtype, count * matrix.pitch)};
}

}  // namespace model
