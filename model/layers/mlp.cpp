#include "model/layers/mlp.h"

namespace model {

gpu::Status Mlp::forward(StepContext& context, ConstMatrix x, Matrix y) const {
  Scratch scratch(context);
  const Matrix gate = scratch.matrix(intermediate_, "mlp gate");
  const Matrix up = scratch.matrix(intermediate_, "mlp up");
  RETURN_IF_ERROR(scratch.status());
  const kernels::GemmGroupArgs::Output outputs[] = {{gate, weights_.gate, "mlp gate"},
                                                    {up, weights_.up, "mlp up"}};
  RETURN_IF_ERROR(project(context, x, outputs));
  RETURN_IF_ERROR(context.ops.swiglu(context.stream, {gate, gate, up}));
  return project(context, y, gate, weights_.down, "mlp down");
}

}  // namespace model
