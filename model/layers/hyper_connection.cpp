#include "model/layers/hyper_connection.h"

namespace model {

HyperConnection::HyperConnection(const ModelConfig& config, const HyperConnectionWeights& weights)
    : weights_(weights),
      hidden_size_(config.hidden_size),
      num_streams_(config.hyper_connection->num_streams),
      low_rank_(config.hyper_connection->low_rank),
      norm_weight_(config.norm_weight),
      eps_(config.rms_norm_eps) {}

gpu::Status HyperConnection::mix(StepContext& context, ConstMatrix streams, Matrix x, Matrix inject) const {
  const std::int32_t width = num_streams_ * hidden_size_;
  Scratch scratch(context);
  const Matrix normed = scratch.matrix(width, "hc normed streams");
  const Matrix down = scratch.matrix(low_rank_, "hc down");
  const Matrix gates = scratch.matrix(width, "hc gates");
  RETURN_IF_ERROR(scratch.status());

  gpu::Stream& stream = context.stream;
  kernels::Ops& ops = context.ops;
  RETURN_IF_ERROR(
      ops.rms_norm(stream, {normed, streams, weights_.norm, Elements{hidden_size_}, norm_weight_, eps_}));
  RETURN_IF_ERROR(project(context, down, normed, weights_.down, "hc down"));
  RETURN_IF_ERROR(ops.scaled_silu(stream, {down, down, 1.0F / static_cast<float>(num_streams_)}));
  RETURN_IF_ERROR(project(context, gates, down, weights_.up, "hc up"));
  RETURN_IF_ERROR(ops.mix_streams(stream, {x, gates, normed, num_streams_}));
  if (!weights_.inject) return gpu::Done{};
  return project(context, inject, normed, *weights_.inject, "hc inject");
}

gpu::Status HyperConnection::inject(StepContext& context, Matrix streams, ConstMatrix y,
                                    ConstMatrix inject) const {
  return context.ops.inject_streams(context.stream, {streams, y, inject, num_streams_});
}

}  // namespace model
