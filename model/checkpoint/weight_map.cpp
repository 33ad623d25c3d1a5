#include "model/checkpoint/weight_map.h"

#include "model/arch/ple_constants.h"
#include "model/checkpoint/weight_map_blocks.h"

namespace model {
namespace {

constexpr const char* kMtpPrefix = "mtp.";

/// Walks the model in the order of its forward pass.
class Mapper {
 public:
  Mapper(const ModelConfig& config, const TensorNames& names) : config_(config), builder_{config, names, {}} {
    prefix_ = names.has_prefix("model.language_model.") ? "model.language_model." : "model.";
    mtp_prefix_ = names.has_prefix("model.mtp.") ? "model.mtp." : kMtpPrefix;
    has_mtp_ = config.mtp && (config.mtp->required || names.has_prefix(mtp_prefix_));
  }

  WeightMap map(ModelWeights& weights) {
    const std::int64_t vocab = config_.vocab_size, hidden = config_.hidden_size;
    builder_.matrix(weights.embedding, prefix_ / "embed_tokens.weight", vocab, hidden, {0.0F, 1.0F});
    weights.layers.resize(config_.layers.size());
    for (std::size_t i = 0; i < weights.layers.size(); ++i) map_layer(weights.layers[i], i);
    if (config_.hyper_connection) {
      map_final_mixer(builder_, weights.mixer.emplace(), prefix_);
    } else {
      builder_.norm(weights.final_norm, prefix_ / "norm.weight", hidden);
    }
    if (!config_.tied_embeddings) builder_.projection(weights.head, "lm_head.weight", vocab, hidden);
    if (has_mtp_) map_mtp(weights.mtp.emplace());
    return std::move(builder_.map);
  }

 private:
  void map_layer(LayerWeights& layer, std::size_t i) {
    const auto index = static_cast<LayerIndex>(i);
    const std::string at = prefix_ + "layers." + std::to_string(i) + ".";
    map_norms(layer, at);
    if (config_.ple) {
      const auto& ids = config_.ple->layers;
      const auto found = std::find(ids.begin(), ids.end(), index);
      if (found != ids.end())
        map_ple(builder_, layer.ple.emplace(), at / "ple.", static_cast<std::int32_t>(found - ids.begin()));
    }
    if (config_.layers[i] == LayerKind::linear_attention) {
      map_gdn(builder_, layer.gdn.emplace(), at / "linear_attn.");
    } else {
      map_attention(builder_, layer.attention.emplace(), at / "self_attn.", config_.layers[i]);
    }
    map_ffn(layer, at, config_.has_experts(index));
  }

  /// How the blocks of a layer hang on the residual.
  void map_norms(LayerWeights& layer, const std::string& at) {
    if (config_.hyper_connection) {
      map_hyper_connection(builder_, layer.attn_hc.emplace(), at / "attn_hyper_connection.");
      map_hyper_connection(builder_, layer.mlp_hc.emplace(), at / "mlp_hyper_connection.");
    } else {
      builder_.norm(layer.input_norm, at / "input_layernorm.weight", config_.hidden_size);
      builder_.norm(layer.post_attention_norm, at / "post_attention_layernorm.weight", config_.hidden_size);
    }
  }

  void map_ffn(LayerWeights& layer, const std::string& at, bool has_experts) {
    if (has_experts) {
      map_moe(builder_, layer.moe.emplace(), at / "mlp.");
    } else {
      map_mlp(builder_, layer.mlp.emplace(), at / "mlp.", config_.intermediate_size);
    }
  }

  void map_mtp(MtpWeights& mtp) {
    const std::int64_t hidden = config_.hidden_size;
    const std::int64_t streams = config_.hyper_connection ? config_.hyper_connection->num_streams : 1;
    builder_.norm(mtp.pre_fc_norm_embedding, mtp_prefix_ / "pre_fc_norm_embedding.weight", hidden);
    builder_.norm(mtp.pre_fc_norm_hidden, mtp_prefix_ / "pre_fc_norm_hidden.weight", streams * hidden);
    if (config_.hyper_connection) {
      builder_.projection(mtp.fc_embedding, mtp_prefix_ / "fc_embedding.weight", hidden, hidden);
      builder_.projection(mtp.fc_hidden, mtp_prefix_ / "fc_hidden.weight", hidden, hidden);
      map_final_mixer(builder_, mtp.mixer.emplace(), mtp_prefix_);
    } else {
      builder_.projection(mtp.fc, mtp_prefix_ / "fc.weight", hidden, 2 * hidden);
      builder_.norm(mtp.final_norm, mtp_prefix_ / "norm.weight", hidden);
    }
    const std::string at = mtp_prefix_ / "layers.0.";
    map_norms(mtp.layer, at);
    map_attention(builder_, mtp.layer.attention.emplace(), at / "self_attn.",
                  config_.indexer ? LayerKind::sparse_attention : LayerKind::full_attention);
    map_ffn(mtp.layer, at, config_.moe.has_value());
  }

  const ModelConfig& config_;
  MapBuilder builder_;
  std::string prefix_, mtp_prefix_;
  bool has_mtp_ = false;
};

}  // namespace

WeightMap map_weights(const ModelConfig& config, const TensorNames& names, ModelWeights& skeleton) {
  return Mapper(config, names).map(skeleton);
}

gpu::Bytes device_weight_bytes(const ModelConfig& config, std::optional<gpu::DType> matrices) {
  ModelWeights skeleton;
  gpu::Bytes bytes;
  for (const WeightSpec& weight : map_weights(config, published_names(), skeleton).weights) {
    const bool widened = weight.storage == WeightSpec::Storage::widened;
    bytes += gpu::bytes_of(widened ? gpu::DType::f32 : matrices.value_or(gpu::DType::bf16),
                           gpu::Elements{weight.rows * weight.cols});
  }
  return bytes;
}

std::optional<PleTableFacts> ple_table_facts(const ModelConfig& config, std::optional<gpu::DType> matrices) {
  if (!config.ple) return std::nullopt;
  const gpu::DType type = matrices.value_or(gpu::DType::bf16);
  const gpu::Elements dim{config.ple->head_dim()};
  PleTableFacts facts;
  facts.row_bytes = gpu::bytes_of(gpu::DType::bf16, dim);
  for (std::size_t i = 0; i < config.ple->layers.size(); ++i) {
    const std::int64_t rows =
        derive_ple_constants(*config.ple, config.vocab_size, static_cast<std::int32_t>(i)).table_rows;
    facts.device_bytes += rows * gpu::bytes_of(type, dim);
    facts.file_bytes += rows * facts.row_bytes;
  }
  facts.not_readable = "there are no files to read rows from";
  return facts;
}

TensorNames published_names() {
  return {[](std::string_view) { return false; },
          [](std::string_view prefix) { return prefix == kMtpPrefix; }};
}

}  // namespace model
