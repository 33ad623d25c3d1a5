#include "model/arch/family_config.h"

namespace model {

void read_common(ConfigReader& reader, ModelConfig& config) {
  config.vocab_size = reader.integer("vocab_size", limits::kVocab);
  config.hidden_size = reader.integer("hidden_size", limits::kHidden);
  config.num_heads = reader.integer("num_attention_heads", limits::kHeads);
  config.max_positions = reader.integer("max_position_embeddings", limits::kPositions);
  config.rms_norm_eps = static_cast<float>(reader.number("rms_norm_eps", {0.0, 1.0}, 1e-6));
  config.tied_embeddings = reader.boolean("tie_word_embeddings", false);
  config.eos = reader.integers("eos_token_id", limits::kToken);
  if (reader.has("bos_token_id")) config.bos = reader.integer("bos_token_id", limits::kToken);

  if (const auto activation = reader.text("hidden_act").value_or("silu"); activation != "silu") {
    reader.problem("hidden_act", "is \"" + std::string(activation) + "\"; only silu is supported");
  }
  for (std::string_view key : {"attention_bias", "mlp_bias"}) {
    if (reader.boolean(key, false)) reader.problem(key, "is true; projections with a bias are not supported");
  }
  require_multiple_of_8(reader, {"hidden_size"}, config.hidden_size);
}

void require_multiple_of_8(ConfigReader& reader, std::initializer_list<std::string_view> keys,
                           std::int64_t value) {
  reader.require(keys, value % 8 == 0,
                 "gives a projection an inner dimension of " + std::to_string(value) +
                     "; the kernels need a multiple of 8");
}

void read_heads(ConfigReader& reader, ModelConfig& config, std::optional<std::int32_t> default_kv_heads,
                std::optional<std::int32_t> default_head_dim) {
  config.num_kv_heads = reader.integer("num_key_value_heads", limits::kHeads, default_kv_heads);
  config.head_dim = reader.integer("head_dim", limits::kHeadDim, default_head_dim);
  reader.require({"num_attention_heads", "num_key_value_heads"}, config.num_heads % config.num_kv_heads == 0,
                 "must be a multiple of num_key_value_heads");
  const std::int64_t width = std::int64_t{config.head_dim} * config.num_heads;
  reader.require({"num_attention_heads", "head_dim"}, width <= limits::kMaxAttentionWidth,
                 "times head_dim is " + std::to_string(width) + ", at most " +
                     std::to_string(limits::kMaxAttentionWidth) + " is possible");
  require_multiple_of_8(reader, {"head_dim", "num_attention_heads", "hidden_size"}, width);
}

void read_dense_mlp(ConfigReader& reader, ModelConfig& config) {
  config.intermediate_size = reader.integer("intermediate_size", limits::kIntermediate);
  require_multiple_of_8(reader, {"intermediate_size"}, config.intermediate_size);
}

}  // namespace model
