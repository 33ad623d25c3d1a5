#include <algorithm>

#include "model/arch/family_config.h"

namespace model {
namespace {

std::vector<LayerKind> interval_layers(std::int32_t num_layers, std::int32_t interval, LayerKind attention) {
  std::vector<LayerKind> layers;
  for (std::int32_t i = 0; i < num_layers; ++i)
    layers.push_back((i + 1) % interval != 0 ? LayerKind::linear_attention : attention);
  return layers;
}

/// Later releases write num_local_experts for what was num_experts.
std::int32_t read_num_experts(ConfigReader& reader) {
  const bool later = reader.has("num_local_experts");
  const std::int32_t num = reader.integer(later ? "num_local_experts" : "num_experts", limits::kExperts);
  if (later && reader.has("num_experts")) {
    const std::int32_t other = reader.integer("num_experts", limits::kExperts);
    reader.require({"num_local_experts", "num_experts"}, other == num,
                   "is " + std::to_string(num) + ", num_experts is " + std::to_string(other));
  }
  return num;
}

}  // namespace

std::vector<LayerKind> read_hybrid_layers(ConfigReader& reader, LayerKind attention,
                                          const std::vector<std::string_view>& attention_names,
                                          std::optional<std::int64_t> default_interval) {
  const std::int32_t num_layers = reader.integer("num_hidden_layers", limits::kLayers);
  const auto names = reader.texts("layer_types");
  if (!names) {
    const auto interval = reader.integer("full_attention_interval", limits::kLayers, default_interval);
    return interval_layers(num_layers, interval, attention);
  }
  std::vector<LayerKind> layers;
  for (std::string_view name : *names) {
    const bool attends =
        std::find(attention_names.begin(), attention_names.end(), name) != attention_names.end();
    layers.push_back(attends ? attention : LayerKind::linear_attention);
    reader.require({"layer_types"}, attends || name == "linear_attention",
                   "names \"" + std::string(name) + "\", which is no kind of layer of this model");
  }
  reader.require({"layer_types", "num_hidden_layers"}, std::ssize(layers) == num_layers,
                 "has " + std::to_string(layers.size()) + " entries, num_hidden_layers is " +
                     std::to_string(num_layers));
  return layers;
}

GdnConfig read_gdn(ConfigReader& reader) {
  GdnConfig gdn;
  gdn.num_k_heads = reader.integer("linear_num_key_heads", limits::kHeads);
  gdn.num_v_heads = reader.integer("linear_num_value_heads", limits::kHeads);
  gdn.k_dim = reader.integer("linear_key_head_dim", limits::kHeadDim);
  gdn.v_dim = reader.integer("linear_value_head_dim", limits::kHeadDim);
  gdn.conv_kernel = reader.integer("linear_conv_kernel_dim", limits::kTaps, 4);
  reader.require({"linear_num_value_heads", "linear_num_key_heads"}, gdn.num_v_heads % gdn.num_k_heads == 0,
                 "must be a multiple of linear_num_key_heads");
  require_multiple_of_8(reader, {"linear_value_head_dim", "linear_num_value_heads"},
                        std::int64_t{gdn.num_v_heads} * gdn.v_dim);
  if (const auto dtype = reader.text("mamba_ssm_dtype").value_or("float32"); dtype != "float32") {
    reader.problem("mamba_ssm_dtype", "is \"" + std::string(dtype) + "\"; the state is kept in float32 only");
  }
  return gdn;
}

MoeConfig read_moe(ConfigReader& reader, SharedExpert shared) {
  MoeConfig moe;
  moe.num_experts = read_num_experts(reader);
  moe.top_k = reader.integer("num_experts_per_tok", limits::kExperts);
  moe.intermediate = reader.integer("moe_intermediate_size", limits::kIntermediate);
  reader.require(
      {"num_experts_per_tok", "num_experts", "num_local_experts"}, moe.top_k <= moe.num_experts,
      "is " + std::to_string(moe.top_k) + ", more than num_experts " + std::to_string(moe.num_experts));
  require_multiple_of_8(reader, {"moe_intermediate_size"}, moe.intermediate);
  if (shared == SharedExpert::none) return moe;
  moe.shared_intermediate = reader.integer("shared_expert_intermediate_size", limits::kIntermediate);
  require_multiple_of_8(reader, {"shared_expert_intermediate_size"}, moe.shared_intermediate);
  return moe;
}

void read_dense_layers(ConfigReader& reader, ModelConfig& config) {
  const auto num_layers = static_cast<LayerIndex>(config.layers.size());
  const std::int32_t step = reader.integer("decoder_sparse_step", limits::kLayers, 1);
  std::vector<bool> is_named(config.layers.size());
  for (const LayerIndex layer : reader.integers("mlp_only_layers", limits::kLayerIndex)) {
    if (layer < num_layers) {
      is_named[static_cast<std::size_t>(layer)] = true;
    } else {
      reader.require({"mlp_only_layers", "num_hidden_layers", "layer_types"}, false,
                     "names layer " + std::to_string(layer) + " (counted from 0), the model has " +
                         std::to_string(num_layers));
    }
  }
  for (LayerIndex layer = 0; layer < num_layers; ++layer)
    if (is_named[static_cast<std::size_t>(layer)] || (layer + 1) % step != 0)
      config.dense_layers.push_back(layer);
  if (!config.dense_layers.empty()) read_dense_mlp(reader, config);
}

}  // namespace model
