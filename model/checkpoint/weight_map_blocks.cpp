#include "model/checkpoint/weight_map_blocks.h"

#include <cmath>

namespace model {

using Storage = WeightSpec::Storage;

DummyValues spread(std::int64_t inner) { return {0.0F, 1.0F / std::sqrt(static_cast<float>(inner))}; }

void MapBuilder::matrix(Weight& target, std::string name, std::int64_t rows, std::int64_t cols,
                        DummyValues dummy) {
  std::vector<TensorPart> parts{{std::move(name), {rows, cols}, 0, rows}};
  map.weights.push_back({Storage::as_stored, rows, cols, std::move(parts), &target, dummy});
}
void MapBuilder::projection(Weight& target, std::int64_t outputs, std::int64_t inputs,
                            std::vector<TensorPart> parts) {
  map.weights.push_back({Storage::as_stored, outputs, inputs, std::move(parts), &target, spread(inputs)});
}
void MapBuilder::vector(ConstVector& target, std::string name, std::int64_t size, DummyValues dummy) {
  std::vector<TensorPart> parts{{std::move(name), {size}, 0, 1}};
  map.weights.push_back({Storage::widened, 1, size, std::move(parts), &target, dummy});
}
void MapBuilder::norm(ConstVector& target, std::string name, std::int64_t size) {
  const bool plain = config.norm_weight == kernels::NormWeight::plain;
  vector(target, std::move(name), size, {plain ? 1.0F : 0.0F, 0.05F});
}
void MapBuilder::conv(ConstMatrix& target, std::string name, std::int64_t channels, std::int64_t taps) {
  std::vector<TensorPart> parts{{std::move(name), {channels, 1, taps}, 0, channels}};
  map.weights.push_back({Storage::widened, channels, taps, std::move(parts), &target, spread(taps)});
}

void map_attention(MapBuilder& builder, AttentionWeights& attention, const std::string& at, LayerKind kind) {
  const std::int64_t hidden = builder.config.hidden_size, dim = builder.config.head_dim;
  const std::int64_t width = builder.config.num_heads * dim, kv_width = builder.config.num_kv_heads * dim;
  builder.projection(attention.q, at / "q_proj.weight",
                     builder.config.attention_output_gate ? 2 * width : width, hidden);
  builder.projection(attention.k, at / "k_proj.weight", kv_width, hidden);
  builder.projection(attention.v, at / "v_proj.weight", kv_width, hidden);
  builder.projection(attention.o, at / "o_proj.weight", hidden, width);
  if (builder.config.qk_norm) {
    builder.norm(attention.q_norm, at / "q_norm.weight", dim);
    builder.norm(attention.k_norm, at / "k_norm.weight", dim);
  }
  if (kind != LayerKind::sparse_attention) return;
  const IndexerConfig& c = *builder.config.indexer;
  IndexerWeights& indexer = attention.indexer.emplace();
  builder.projection(indexer.qk, at / "indexer.index_qk_proj.weight",
                     (std::int64_t{c.num_heads} + 1) * c.head_dim, hidden);
  builder.norm(indexer.q_norm, at / "indexer.q_layernorm.weight", c.head_dim);
  builder.norm(indexer.k_norm, at / "indexer.k_layernorm.weight", c.head_dim);
}

void map_mlp(MapBuilder& builder, MlpWeights& mlp, const std::string& at, std::int64_t intermediate) {
  builder.projection(mlp.gate, at / "gate_proj.weight", intermediate, builder.config.hidden_size);
  builder.projection(mlp.up, at / "up_proj.weight", intermediate, builder.config.hidden_size);
  builder.projection(mlp.down, at / "down_proj.weight", builder.config.hidden_size, intermediate);
}

namespace {

/// Fused [E, 2I, H] and [E, H, I], or three tensors an expert. Where neither is there the fused names are
/// the missing ones.
void map_experts(MapBuilder& builder, MoeWeights& moe, const std::string& at) {
  const std::int64_t num = builder.config.moe->num_experts, inner = builder.config.moe->intermediate,
                     hidden = builder.config.hidden_size;
  WeightSpec gate_up{Storage::as_stored, num * 2 * inner, hidden, {}, &moe.gate_up, spread(hidden)};
  WeightSpec down{Storage::as_stored, num * hidden, inner, {}, &moe.down, spread(inner)};
  const bool single = !builder.names.has(at / "gate_up_proj") && !builder.names.has(at / "down_proj") &&
                      builder.names.has_prefix(at);
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
  builder.map.weights.push_back(std::move(gate_up));
  builder.map.weights.push_back(std::move(down));
}

}  // namespace

void map_moe(MapBuilder& builder, MoeWeights& moe, const std::string& at) {
  const MoeConfig& c = *builder.config.moe;
  builder.projection(moe.router, at / "gate.weight", c.num_experts, builder.config.hidden_size);
  map_experts(builder, moe, at / "experts.");
  if (c.shared_intermediate == 0) return;
  map_mlp(builder, moe.shared.emplace(), at / "shared_expert.", c.shared_intermediate);
  builder.projection(moe.shared_gate, at / "shared_expert_gate.weight", 1, builder.config.hidden_size);
}

}  // namespace model
