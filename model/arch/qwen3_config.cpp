#include "model/arch/family_config.h"

namespace model {
namespace {

/// Every layer attends to everything before it; a window is refused rather than left out.
void read_layers(ConfigReader& reader, ModelConfig& config) {
  const auto num_layers = reader.integer("num_hidden_layers", limits::kLayers);
  config.layers.assign(static_cast<std::size_t>(num_layers), LayerKind::full_attention);
  if (reader.boolean("use_sliding_window", false)) {
    reader.problem("use_sliding_window", "is true; attention within a window is not supported");
  }
  const auto names = reader.texts("layer_types");
  if (!names) return;
  for (std::string_view name : *names) {
    reader.require({"layer_types"}, name == "full_attention",
                   "names \"" + std::string(name) + "\"; only full_attention is supported");
  }
  reader.require({"layer_types", "num_hidden_layers"}, std::ssize(*names) == num_layers,
                 "has " + std::to_string(names->size()) + " entries, num_hidden_layers is " +
                     std::to_string(num_layers));
}

/// What the dense and the sparse models have in common.
void read_attention(ConfigReader& reader, ModelConfig& config) {
  config.norm_weight = kernels::NormWeight::plain;
  config.qk_norm = true;
  read_common(reader, config);
  read_heads(reader, config, config.num_heads, 128);
  read_layers(reader, config);
  read_rope(reader, config, 10000.0, 1.0);
}

}  // namespace

void read_qwen3(ConfigReader& reader, ModelConfig& config) {
  config.family = Family::qwen3;
  read_attention(reader, config);
  read_dense_mlp(reader, config);
}

void read_qwen3_moe(ConfigReader& reader, ModelConfig& config) {
  config.family = Family::qwen3_moe;
  read_attention(reader, config);
  config.moe = read_moe(reader, SharedExpert::none);
  config.moe->renormalize = reader.boolean("norm_topk_prob", false);
  read_dense_layers(reader, config);
}

}  // namespace model
