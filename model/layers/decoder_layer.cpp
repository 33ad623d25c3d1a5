#include "model/layers/decoder_layer.h"

#include "model/layers/attention.h"
#include "model/layers/mlp.h"
#include "model/layers/moe.h"
#include "model/layers/ple.h"
#include "model/layers/recurrent.h"

namespace model {
namespace {

std::unique_ptr<StatefulLayer> make_mixer(const ModelConfig& config, LayerIndex layer,
                                          const LayerWeights& weights, const LayerMemory& memory,
                                          kernels::Rope rope) {
  if (config.layers[static_cast<std::size_t>(layer)] == LayerKind::linear_attention)
    return std::make_unique<Recurrent>(config, *weights.gdn, memory.recurrent);
  return std::make_unique<Attention>(config, layer, *weights.attention, memory.attention, rope);
}

std::unique_ptr<Layer> make_ffn(const ModelConfig& config, const LayerWeights& weights) {
  if (weights.moe) return std::make_unique<Moe>(config, *weights.moe);
  return std::make_unique<Mlp>(*weights.mlp, config.intermediate_size);
}

class StreamLayer final : public DecoderLayer {
 public:
  StreamLayer(const ModelConfig& config, LayerIndex layer, const LayerWeights& weights,
              const LayerMemory& memory, kernels::Rope rope)
      : hidden_size_(config.hidden_size),
        attn_hc_(config, *weights.attn_hc),
        mlp_hc_(config, *weights.mlp_hc),
        mixer_(make_mixer(config, layer, weights, memory, rope)),
        ffn_(make_ffn(config, weights)) {
    if (weights.ple) ple_ = std::make_unique<Ple>(config, layer, *weights.ple, memory.ple, memory.ngram_hash);
  }

  gpu::Status forward(StepContext& context, Matrix hidden) const override {
    if (ple_) RETURN_IF_ERROR(add_ple(context, hidden));
    RETURN_IF_ERROR(add_block(context, hidden, attn_hc_, *mixer_));
    return add_block(context, hidden, mlp_hc_, *ffn_);
  }

  void append_state(StateSlot slot, std::vector<StateSpan>& spans) const override {
    if (ple_) ple_->append_state(slot, spans);
    mixer_->append_state(slot, spans);
  }

 private:
  gpu::Status add_ple(StepContext& context, Matrix hidden) const {
    Scratch scratch(context);
    const Matrix y = scratch.matrix(static_cast<std::int32_t>(hidden.cols.n), "ple out");
    RETURN_IF_ERROR(scratch.status());
    RETURN_IF_ERROR(ple_->forward(context, hidden, y));
    return context.ops.add(context.stream, {hidden, y});
  }

  gpu::Status add_block(StepContext& context, Matrix hidden, const HyperConnection& hc,
                        const Layer& block) const {
    Scratch scratch(context);
    const Matrix x = scratch.matrix(hidden_size_, "block in");
    const Matrix y = scratch.matrix(hidden_size_, "block out");
    const Matrix inject = scratch.matrix(hc.num_streams(), "hc inject");
    RETURN_IF_ERROR(scratch.status());
    RETURN_IF_ERROR(hc.mix(context, hidden, x, inject));
    RETURN_IF_ERROR(block.forward(context, x, y));
    return hc.inject(context, hidden, y, inject);
  }

  std::int32_t hidden_size_;
  HyperConnection attn_hc_, mlp_hc_;
  std::unique_ptr<Ple> ple_;
  std::unique_ptr<StatefulLayer> mixer_;
  std::unique_ptr<Layer> ffn_;
};

class PrenormLayer final : public DecoderLayer {
 public:
  PrenormLayer(const ModelConfig& config, LayerIndex layer, const LayerWeights& weights,
               const LayerMemory& memory, kernels::Rope rope)
      : weights_(weights),
        hidden_size_(config.hidden_size),
        norm_weight_(config.norm_weight),
        eps_(config.rms_norm_eps),
        mixer_(make_mixer(config, layer, weights, memory, rope)),
        ffn_(make_ffn(config, weights)) {}

  gpu::Status forward(StepContext& context, Matrix hidden) const override {
    RETURN_IF_ERROR(add_block(context, hidden, weights_.input_norm, *mixer_));
    return add_block(context, hidden, weights_.post_attention_norm, *ffn_);
  }

  void append_state(StateSlot slot, std::vector<StateSpan>& spans) const override {
    mixer_->append_state(slot, spans);
  }

 private:
  gpu::Status add_block(StepContext& context, Matrix hidden, gpu::ConstVector norm,
                        const Layer& block) const {
    Scratch scratch(context);
    const Matrix x = scratch.matrix(hidden_size_, "block in");
    const Matrix y = scratch.matrix(hidden_size_, "block out");
    RETURN_IF_ERROR(scratch.status());
    RETURN_IF_ERROR(
        context.ops.rms_norm(context.stream, {x, hidden, norm, Elements{hidden_size_}, norm_weight_, eps_}));
    RETURN_IF_ERROR(block.forward(context, x, y));
    return context.ops.add(context.stream, {hidden, y});
  }

  const LayerWeights& weights_;
  std::int32_t hidden_size_;
  kernels::NormWeight norm_weight_;
  float eps_;
  std::unique_ptr<StatefulLayer> mixer_;
  std::unique_ptr<Layer> ffn_;
};

}  // namespace

std::unique_ptr<DecoderLayer> make_stream_layer(const ModelConfig& config, LayerIndex layer,
                                                const LayerWeights& weights, const LayerMemory& memory,
                                                kernels::Rope rope) {
  return std::make_unique<StreamLayer>(config, layer, weights, memory, rope);
}

std::unique_ptr<DecoderLayer> make_prenorm_layer(const ModelConfig& config, LayerIndex layer,
                                                 const LayerWeights& weights, const LayerMemory& memory,
                                                 kernels::Rope rope) {
  return std::make_unique<PrenormLayer>(config, layer, weights, memory, rope);
}

}  // namespace model
