#include "model/arch/family_config.h"

namespace model {

void read_llama(ConfigReader& reader, ModelConfig& config) {
  config.family = Family::llama;
  config.norm_weight = kernels::NormWeight::plain;
  read_common(reader, config);
  if (!reader.has("head_dim")) {
    reader.require({"hidden_size", "num_attention_heads"}, config.hidden_size % config.num_heads == 0,
                   "must be a multiple of num_attention_heads where head_dim is absent");
  }
  read_heads(reader, config, config.num_heads, config.hidden_size / config.num_heads);
  read_dense_mlp(reader, config);
  config.layers.assign(static_cast<std::size_t>(reader.integer("num_hidden_layers", limits::kLayers)),
                       LayerKind::full_attention);
  read_rope(reader, config, 10000.0, 1.0);
}

}  // namespace model
