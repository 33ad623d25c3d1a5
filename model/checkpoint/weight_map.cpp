#include "model/checkpoint/weight_map.h"

#include <cmath>

#include "model/arch/ple_constants.h"

namespace model {
namespace {

using Storage = WeightSpec::Storage;

std::string operator/(const std::string& prefix, std::string_view name) { return prefix + std::string(name); }

/// Keeps the activations of random weights near one whatever the inner dimension.
DummyValues spread(std::int64_t inner) { return {0.0F, 1.0F / std::sqrt(static_cast<float>(inner))}; }

/// Walks the model in the order of its forward pass.
class Mapper {
 public:
  Mapper(const ModelConfig& config, const TensorNames& names) : config_(config), names_(names) {
    prefix_ = names.has_prefix("model.language_model.") ? "model.language_model." : "model.";
    mtp_prefix_ = names.has_prefix("model.mtp.") ? "model.mtp." : "mtp.";
  }

  WeightMap map(ModelWeights& weights) {
    const std::int64_t vocab = config_.vocab_size, hidden = config_.hidden_size;
    matrix(weights.embedding, prefix_ / "embed_tokens.weight", vocab, hidden, {0.0F, 1.0F});
    weights.layers.resize(config_.layers.size());
    for (std::size_t i = 0; i < weights.layers.size(); ++i) {
      layer(weights.layers[i], prefix_ + "layers." + std::to_string(i) + ".", config_.layers[i],
            static_cast<LayerIndex>(i));
    }
    if (config_.hyper_connection) {
      final_mixer(weights.mixer.emplace(), prefix_);
    } else {
      norm(weights.final_norm, prefix_ / "norm.weight", hidden);
    }
    if (!config_.tied_embeddings) matrix(weights.head, "lm_head.weight", vocab, hidden, spread(hidden));
    if (config_.mtp) mtp(weights.mtp.emplace());
    return std::move(map_);
  }

 private:
  void matrix(Weight& target, std::string name, std::int64_t rows, std::int64_t cols, DummyValues dummy) {
    std::vector<TensorPart> parts{{std::move(name), {rows, cols}, 0, rows}};
    map_.weights.push_back({Storage::as_stored, rows, cols, std::move(parts), &target, dummy});
  }
  void projection(Weight& target, std::string name, std::int64_t outputs, std::int64_t inputs) {
    matrix(target, std::move(name), outputs, inputs, spread(inputs));
  }
  void vector(ConstVector& target, std::string name, std::int64_t size, DummyValues dummy) {
    std::vector<TensorPart> parts{{std::move(name), {size}, 0, 1}};
    map_.weights.push_back({Storage::widened, 1, size, std::move(parts), &target, dummy});
  }
  void norm(ConstVector& target, std::string name, std::int64_t size) {
    vector(target, std::move(name), size,
           {config_.norm_weight == kernels::NormWeight::plain ? 1.0F : 0.0F, 0.05F});
  }
  /// Files keep the middle dimension of a one-channel filter.
  void conv(ConstMatrix& target, std::string name, std::int64_t channels, std::int64_t taps) {
    std::vector<TensorPart> parts{{std::move(name), {channels, 1, taps}, 0, channels}};
    map_.weights.push_back({Storage::widened, channels, taps, std::move(parts), &target, spread(taps)});
  }

  void layer(LayerWeights& layer, const std::string& at, LayerKind kind, std::optional<LayerIndex> index) {
    if (config_.hyper_connection) {
      hyper_connection(layer.attn_hc.emplace(), at / "attn_hyper_connection.");
      hyper_connection(layer.mlp_hc.emplace(), at / "mlp_hyper_connection.");
    } else {
      norm(layer.input_norm, at / "input_layernorm.weight", config_.hidden_size);
      norm(layer.post_attention_norm, at / "post_attention_layernorm.weight", config_.hidden_size);
    }
    if (index && config_.ple) {
      const auto& ids = config_.ple->layers;
      for (std::size_t i = 0; i < ids.size(); ++i) {
        if (ids[i] == *index) ple(layer.ple.emplace(), at / "ple.", static_cast<std::int32_t>(i));
      }
    }
    if (kind == LayerKind::linear_attention) {
      gdn(layer.gdn.emplace(), at / "linear_attn.");
    } else {
      attention(layer.attention.emplace(), at / "self_attn.", kind);
    }
    if (config_.moe) {
      moe(layer.moe.emplace(), at / "mlp.");
    } else {
      mlp(layer.mlp.emplace(), at / "mlp.", config_.intermediate_size);
    }
  }

  void mixer(HyperConnectionWeights& hc, const std::string& at) {
    const std::int64_t width = std::int64_t{config_.hyper_connection->num_streams} * config_.hidden_size;
    const std::int64_t rank = config_.hyper_connection->low_rank;
    norm(hc.norm, at / "hc_norm.weight", width);
    projection(hc.down, at / "input_mix_weight_down.weight", rank, width);
    projection(hc.up, at / "input_mix_weight_up.weight", width, rank);
  }
  void hyper_connection(HyperConnectionWeights& hc, const std::string& at) {
    mixer(hc, at);
    const std::int64_t streams = config_.hyper_connection->num_streams;
    projection(hc.inject.emplace(), at / "block_inject_weight.weight", streams,
               streams * config_.hidden_size);
  }
  void final_mixer(HyperConnectionWeights& hc, const std::string& at) {
    mixer(hc, at / "hyper_connection_mixer.");
    map_.final_mixer_injects.push_back(at / "hyper_connection_mixer.block_inject_weight.weight");
  }

  void gdn(GdnWeights& gdn, const std::string& at) {
    const GdnConfig& c = *config_.gdn;
    const std::int64_t hidden = config_.hidden_size;
    projection(gdn.qkv, at / "in_proj_qkv.weight", c.conv_width(), hidden);
    projection(gdn.z, at / "in_proj_z.weight", c.value_width(), hidden);
    projection(gdn.a, at / "in_proj_a.weight", c.num_v_heads, hidden);
    projection(gdn.b, at / "in_proj_b.weight", c.num_v_heads, hidden);
    conv(gdn.conv, at / "conv1d.weight", c.conv_width(), c.conv_kernel);
    vector(gdn.a_log, at / "A_log", c.num_v_heads, {0.0F, 0.5F});
    vector(gdn.dt_bias, at / "dt_bias", c.num_v_heads, {-2.0F, 0.5F});
    vector(gdn.norm, at / "norm.weight", c.v_dim, {1.0F, 0.05F});  // plain in every family
    projection(gdn.out, at / "out_proj.weight", hidden, c.value_width());
  }

  void attention(AttentionWeights& attention, const std::string& at, LayerKind kind) {
    const std::int64_t hidden = config_.hidden_size, dim = config_.head_dim;
    const std::int64_t width = config_.num_heads * dim, kv_width = config_.num_kv_heads * dim;
    projection(attention.q, at / "q_proj.weight", config_.attention_output_gate ? 2 * width : width, hidden);
    projection(attention.k, at / "k_proj.weight", kv_width, hidden);
    projection(attention.v, at / "v_proj.weight", kv_width, hidden);
    projection(attention.o, at / "o_proj.weight", hidden, width);
    if (config_.qk_norm) {
      norm(attention.q_norm, at / "q_norm.weight", dim);
      norm(attention.k_norm, at / "k_norm.weight", dim);
    }
    if (kind != LayerKind::sparse_attention) return;
    const IndexerConfig& c = *config_.indexer;
    IndexerWeights& indexer = attention.indexer.emplace();
    projection(indexer.qk, at / "indexer.index_qk_proj.weight", (std::int64_t{c.num_heads} + 1) * c.head_dim,
               hidden);
    norm(indexer.q_norm, at / "indexer.q_layernorm.weight", c.head_dim);
    norm(indexer.k_norm, at / "indexer.k_layernorm.weight", c.head_dim);
  }

  void mlp(MlpWeights& mlp, const std::string& at, std::int64_t intermediate) {
    projection(mlp.gate, at / "gate_proj.weight", intermediate, config_.hidden_size);
    projection(mlp.up, at / "up_proj.weight", intermediate, config_.hidden_size);
    projection(mlp.down, at / "down_proj.weight", config_.hidden_size, intermediate);
  }

  void moe(MoeWeights& moe, const std::string& at) {
    const MoeConfig& c = *config_.moe;
    projection(moe.router, at / "gate.weight", c.num_experts, config_.hidden_size);
    experts(moe, at / "experts.");
    mlp(moe.shared, at / "shared_expert.", c.shared_intermediate);
    projection(moe.shared_gate, at / "shared_expert_gate.weight", 1, config_.hidden_size);
  }

  /// Fused [E, 2I, H] and [E, H, I], or three tensors an expert. Where neither is there the fused names are
  /// the missing ones.
  void experts(MoeWeights& moe, const std::string& at) {
    const std::int64_t num = config_.moe->num_experts, inner = config_.moe->intermediate,
                       hidden = config_.hidden_size;
    WeightSpec gate_up{Storage::as_stored, num * 2 * inner, hidden, {}, &moe.gate_up, spread(hidden)};
    WeightSpec down{Storage::as_stored, num * hidden, inner, {}, &moe.down, spread(inner)};
    const bool single =
        !names_.has(at / "gate_up_proj") && !names_.has(at / "down_proj") && names_.has_prefix(at);
    if (single) {
      for (std::int64_t e = 0; e < num; ++e) {
        const std::string expert = at + std::to_string(e) + ".";
        gate_up.parts.push_back({expert / "gate_proj.weight", {inner, hidden}, e * 2 * inner, inner});
        gate_up.parts.push_back({expert / "up_proj.weight", {inner, hidden}, (e * 2 + 1) * inner, inner});
        down.parts.push_back({expert / "down_proj.weight", {hidden, inner}, e * hidden, hidden});
      }
    } else {
      gate_up.parts.push_back({at / "gate_up_proj", {num, 2 * inner, hidden}, 0, gate_up.rows});
      down.parts.push_back({at / "down_proj", {num, hidden, inner}, 0, down.rows});
    }
    map_.weights.push_back(std::move(gate_up));
    map_.weights.push_back(std::move(down));
  }

  void ple(PleWeights& ple, const std::string& at, std::int32_t ple_index) {
    const PleConfig& c = *config_.ple;
    const std::int64_t hidden = config_.hidden_size;
    const std::int64_t width = std::int64_t{config_.hyper_connection->num_streams} * hidden;
    PleConstants constants = derive_ple_constants(c, config_.vocab_size, ple_index);
    projection(ple.key, at / "key_proj.weight", width, c.embed_dim);
    projection(ple.value, at / "value_proj.weight", hidden, c.embed_dim);
    norm(ple.norm_key, at / "norm_key.weight", width);
    norm(ple.norm_query, at / "norm_query.weight", width);
    norm(ple.norm_conv, at / "norm_conv.weight", width);
    conv(ple.conv, at / "conv1d.weight", width, c.conv_kernel);
    table(ple.table, at / "ple_embedding.ngram_embedding.", constants.table_rows);
    ple.multipliers = std::move(constants.multipliers);
    ple.sizes = std::move(constants.sizes);
    ple.offsets = std::move(constants.offsets);
    map_.hash_buffers.push_back({at / "ple_embedding.layer_multipliers", &ple.multipliers});
    map_.hash_buffers.push_back({at / "ple_embedding.ngram_heads_vocab_sizes", &ple.sizes});
    map_.hash_buffers.push_back({at / "ple_embedding.ngram_heads_offsets", &ple.offsets});
  }

  /// Merged, or shards counted in numbers: a sort by name would put shard_10 before shard_2 and permute the
  /// table unseen.
  void table(Weight& target, const std::string& at, std::int64_t rows) {
    const std::int64_t dim = config_.ple->head_dim();
    WeightSpec table{Storage::as_stored, rows, dim, {}, &target, {0.0F, 0.05F}};
    const std::int64_t num_shards = names_.has(at / "weight") ? 1 : config_.ple->split_parts;
    const std::int64_t shard_rows = gpu::ceil_div(rows, num_shards);
    for (std::int64_t shard = 0, first = 0; first < rows; ++shard, first += shard_rows) {
      const std::int64_t here = std::min(shard_rows, rows - first);
      const std::string name = num_shards == 1 && names_.has(at / "weight")
                                   ? at / "weight"
                                   : at + "shard_" + std::to_string(shard) + ".weight";
      table.parts.push_back({name, {here, dim}, first, here});
    }
    map_.weights.push_back(std::move(table));
  }

  void mtp(MtpWeights& mtp) {
    const std::int64_t hidden = config_.hidden_size;
    const std::int64_t streams = config_.hyper_connection->num_streams;
    projection(mtp.fc_embedding, mtp_prefix_ / "fc_embedding.weight", hidden, hidden);
    projection(mtp.fc_hidden, mtp_prefix_ / "fc_hidden.weight", hidden, hidden);
    norm(mtp.pre_fc_norm_embedding, mtp_prefix_ / "pre_fc_norm_embedding.weight", hidden);
    norm(mtp.pre_fc_norm_hidden, mtp_prefix_ / "pre_fc_norm_hidden.weight", streams * hidden);
    final_mixer(mtp.mixer, mtp_prefix_);
    layer(mtp.layer, mtp_prefix_ / "layers.0.",
          config_.indexer ? LayerKind::sparse_attention : LayerKind::full_attention, std::nullopt);
  }

  const ModelConfig& config_;
  const TensorNames& names_;
  std::string prefix_, mtp_prefix_;
  WeightMap map_;
};

}  // namespace

WeightMap map_weights(const ModelConfig& config, const TensorNames& names, ModelWeights& skeleton) {
  return Mapper(config, names).map(skeleton);
}

std::int64_t count_weight_elements(const ModelConfig& config) {
  ModelWeights skeleton;
  std::int64_t elements = 0;
  for (const WeightSpec& weight : map_weights(config, published_names(), skeleton).weights) {
    elements += weight.rows * weight.cols;
  }
  return elements;
}

TensorNames published_names() {
  const auto never = [](std::string_view) { return false; };
  return {never, never};
}

}  // namespace model
