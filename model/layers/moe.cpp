#include "model/layers/moe.h"

namespace model {

Moe::Moe(const ModelConfig& config, const MoeWeights& weights)
    : weights_(weights), config_(*config.moe), hidden_size_(config.hidden_size) {
  if (weights.shared) shared_.emplace(*weights.shared, config.moe->shared_intermediate);
}

gpu::Status Moe::forward(StepContext& context, ConstMatrix x, Matrix y) const {
  RETURN_IF_ERROR(write_routed(context, x, y));
  return shared_ ? add_shared(context, *shared_, x, y) : gpu::Done{};
}

gpu::Status Moe::write_routed(StepContext& context, ConstMatrix x, Matrix y) const {
  const std::int32_t top_k = config_.top_k;
  Scratch scratch(context);
  // f32: which experts a row gets hangs on small differences, and a rounding here would decide them.
  const Matrix logits = scratch.matrix(DType::f32, config_.num_experts, "router logits");
  const Matrix ids = scratch.matrix(DType::i32, top_k, "expert ids");
  const Matrix weights = scratch.matrix(DType::f32, top_k, "expert weights");
  const Matrix hidden = scratch.matrix(context.activation, top_k, 2 * config_.intermediate, "expert hidden");
  const Matrix out = scratch.matrix(context.activation, top_k, hidden_size_, "expert out");
  const auto order = scratch.indices(top_k, config_.num_experts + 1, "expert order");
  RETURN_IF_ERROR(scratch.status());

  RETURN_IF_ERROR(project(context, logits, x, weights_.router, "moe router"));
  const auto chosen = gpu::typed<std::int32_t>(ids);
  const auto shares = gpu::typed<float>(weights);
  RETURN_IF_ERROR(context.ops.moe_route(context.stream, {chosen, shares, logits, config_.renormalize}));
  kernels::MoeExpertsArgs args;
  args.y = y;
  args.x = x;
  args.ids = chosen;
  args.weights = shares;
  args.gate_up = weights_.gate_up;
  args.down = weights_.down;
  args.num_experts = config_.num_experts;
  args.intermediate = config_.intermediate;
  args.form = context.batch.form;
  args.hidden = hidden;
  args.out = out;
  args.order = order;
  return context.ops.moe_experts(context.stream, args);
}

gpu::Status Moe::add_shared(StepContext& context, const Mlp& expert, ConstMatrix x, Matrix y) const {
  Scratch scratch(context);
  const Matrix shared = scratch.matrix(hidden_size_, "shared expert");
  const Matrix gate = scratch.matrix(1, "shared expert gate");
  RETURN_IF_ERROR(scratch.status());
  RETURN_IF_ERROR(expert.forward(context, x, shared));
  RETURN_IF_ERROR(project(context, gate, x, weights_.shared_gate, "shared expert gate"));
  return context.ops.shared_expert_add(context.stream, {y, shared, gate});
}

}  // namespace model
