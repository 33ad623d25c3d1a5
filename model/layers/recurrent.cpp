#include "model/layers/recurrent.h"

namespace model {

Recurrent::Recurrent(const ModelConfig& config, const GdnWeights& weights, const RecurrentMemory& memory)
    : weights_(weights), config_(*config.gdn), eps_(config.rms_norm_eps), memory_(memory) {}

gpu::Status Recurrent::forward(StepContext& context, ConstMatrix x, Matrix y) const {
  gpu::Stream& stream = context.stream;
  kernels::Ops& ops = context.ops;
  Scratch scratch(context);
  const Matrix u = scratch.matrix(config_.conv_width(), "gdn qkv");
  const Matrix z = scratch.matrix(config_.value_width(), "gdn z");
  const Matrix a = scratch.matrix(config_.num_v_heads, "gdn a");
  const Matrix b = scratch.matrix(config_.num_v_heads, "gdn b");
  const Matrix qkv = scratch.matrix(config_.conv_width(), "gdn convolved qkv");
  const Matrix o = scratch.matrix(config_.value_width(), "gdn out");
  RETURN_IF_ERROR(scratch.status());

  const kernels::GemmGroupArgs::Output outputs[] = {{u, weights_.qkv, "gdn qkv"},
                                                    {z, weights_.z, "gdn z"},
                                                    {a, weights_.a, "gdn a"},
                                                    {b, weights_.b, "gdn b"}};
  RETURN_IF_ERROR(project(context, x, outputs));

  kernels::CausalConvArgs conv;
  conv.y = qkv;
  conv.x = u;
  conv.w = weights_.conv;
  conv.ring = memory_.conv_ring;
  conv.ring_rows = memory_.conv_ring_rows;
  conv.taps = config_.conv_kernel;
  RETURN_IF_ERROR(ops.causal_conv(stream, context.batch, conv));

  kernels::GdnArgs gdn;
  gdn.o = o;
  gdn.qkv = qkv;
  gdn.a = a;
  gdn.b = b;
  gdn.a_log = weights_.a_log;
  gdn.dt_bias = weights_.dt_bias;
  gdn.state = memory_.state;
  gdn.num_k_heads = config_.num_k_heads;
  gdn.num_v_heads = config_.num_v_heads;
  gdn.k_dim = config_.k_dim;
  gdn.v_dim = config_.v_dim;
  gdn.value_heads = config_.value_heads;
  gdn.decay = config_.decay;
  RETURN_IF_ERROR(ops.gdn(stream, context.batch, gdn));

  RETURN_IF_ERROR(ops.gated_rms_norm(
      stream, {o, o, z, weights_.norm, Elements{config_.v_dim}, config_.output_gate, eps_}));
  return project(context, y, o, weights_.out, "gdn out");
}

void Recurrent::append_state(StateSlot slot, std::vector<StateSpan>& spans) const {
  const Rows ring{memory_.conv_ring_rows};
  const Rows heads{config_.num_v_heads};
  spans.push_back(rows_span(memory_.conv_ring, ring * slot, ring));
  spans.push_back(rows_span(memory_.state, heads * slot, heads));
}

}  // namespace model
