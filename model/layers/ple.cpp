#include "model/layers/ple.h"

namespace model {
namespace {

std::unique_ptr<PleRows> resident_rows(const PleConfig& config, LayerIndex layer, const PleWeights& weights,
                                       const PleMemory& memory, const NgramHash& hash) {
  if (memory.stored_rows != nullptr) return nullptr;
  return std::make_unique<ResidentPleRows>(config, layer, weights, hash);
}

}  // namespace

Ple::Ple(const ModelConfig& config, LayerIndex layer, const PleWeights& weights, const PleMemory& memory,
         const NgramHash& hash)
    : weights_(weights),
      memory_(memory),
      resident_rows_(resident_rows(*config.ple, layer, weights, memory, hash)),
      rows_(resident_rows_ ? *resident_rows_ : *memory.stored_rows),
      config_(*config.ple),
      hidden_size_(config.hidden_size),
      num_streams_(config.hyper_connection->num_streams),
      norm_weight_(config.norm_weight),
      eps_(config.rms_norm_eps) {}

gpu::Status Ple::forward(StepContext& context, ConstMatrix x, Matrix y) const {
  gpu::Stream& stream = context.stream;
  kernels::Ops& ops = context.ops;
  const std::int32_t width = num_streams_ * hidden_size_;
  Scratch scratch(context);
  const Matrix embedding = scratch.matrix(config_.embed_dim, "ple embedding");
  const Matrix key = scratch.matrix(width, "ple key");
  const Matrix value = scratch.matrix(hidden_size_, "ple value");
  const Matrix query = scratch.matrix(width, "ple query");
  RETURN_IF_ERROR(scratch.status());

  RETURN_IF_ERROR(rows_.gather(context, embedding));
  RETURN_IF_ERROR(project(context, key, embedding, weights_.key, "ple key"));
  RETURN_IF_ERROR(project(context, value, embedding, weights_.value, "ple value"));
  RETURN_IF_ERROR(norm(context, key, key, weights_.norm_key));
  RETURN_IF_ERROR(norm(context, query, x, weights_.norm_query));
  RETURN_IF_ERROR(ops.ple_gate(stream, {y, key, query, value, num_streams_}));

  // Key and query have served: their bytes take the convolution's input and output.
  const Matrix conv_in = key;
  const Matrix conv_out = query;
  RETURN_IF_ERROR(norm(context, conv_in, y, weights_.norm_conv));
  kernels::CausalConvArgs conv;
  conv.y = conv_out;
  conv.x = conv_in;
  conv.w = weights_.conv;
  conv.ring = memory_.conv_ring;
  conv.ring_rows = memory_.conv_ring_rows;
  conv.taps = config_.conv_kernel;
  conv.dilation = config_.ngram_size;
  RETURN_IF_ERROR(ops.causal_conv(stream, context.batch, conv));
  return ops.add(stream, {y, conv_out});
}

gpu::Status Ple::norm(StepContext& context, Matrix y, ConstMatrix x, gpu::ConstVector w) const {
  return context.ops.rms_norm(context.stream, {y, x, w, Elements{hidden_size_}, norm_weight_, eps_});
}

void Ple::append_state(StateSlot slot, std::vector<StateSpan>& spans) const {
  const Rows ring{memory_.conv_ring_rows};
  spans.push_back(rows_span(memory_.conv_ring, ring * slot, ring));
}

}  // namespace model
