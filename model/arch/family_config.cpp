#include "model/arch/family_config.h"

#include <cmath>

namespace model {
namespace {

void read_llama3_scaling(ConfigReader& scaling, RopeConfig& rope) {
  rope.type = RopeConfig::Type::llama3;
  rope.factor = scaling.number("factor", {1.0, 1e6});
  rope.low_freq_factor = scaling.number("low_freq_factor", {1e-6, 1e6});
  rope.high_freq_factor = scaling.number("high_freq_factor", {1e-6, 1e6});
  rope.original_max_positions = scaling.integer("original_max_position_embeddings", limits::kPositions);
  scaling.require({"high_freq_factor", "low_freq_factor"}, rope.high_freq_factor > rope.low_freq_factor,
                  "must be above low_freq_factor");
}

void read_yarn_scaling(ConfigReader& scaling, std::int32_t max_positions, RopeConfig& rope) {
  rope.type = RopeConfig::Type::yarn;
  rope.original_max_positions =
      scaling.integer("original_max_position_embeddings", limits::kPositions, max_positions);
  rope.factor = scaling.number("factor", {1.0, 1e6});
  rope.beta_fast = scaling.number("beta_fast", {1e-6, 1e6}, 32.0);
  rope.beta_slow = scaling.number("beta_slow", {1e-6, 1e6}, 1.0);
  rope.attention_factor = scaling.number("attention_factor", {1e-6, 1e6}, 0.0);
  rope.mscale = scaling.number("mscale", {0.0, 1e6}, 0.0);
  rope.mscale_all_dim = scaling.number("mscale_all_dim", {0.0, 1e6}, 0.0);
  if (!scaling.boolean("truncate", true)) scaling.problem("truncate", "is false, which is not supported");
}

}  // namespace

RopeConfig read_rope(ConfigReader& reader, std::int32_t head_dim, std::int32_t max_positions,
                     std::optional<double> default_theta, double default_rotary_factor) {
  RopeConfig rope;
  auto parameters = reader.object("rope_parameters");
  auto scaling = reader.object("rope_scaling");
  if (parameters && scaling) reader.problem("rope_scaling", "is given beside rope_parameters; one must go");
  ConfigReader& settings = parameters ? *parameters : scaling ? *scaling : reader;

  const NumberRange theta_range{2.0, 1e12};
  rope.theta = settings.has("rope_theta") ? settings.number("rope_theta", theta_range)
                                          : reader.number("rope_theta", theta_range, default_theta);

  const NumberRange factor_range{1e-3, 1.0};
  const double outer_factor = reader.number("partial_rotary_factor", factor_range, default_rotary_factor);
  const double rotary_factor = settings.number("partial_rotary_factor", factor_range, outer_factor);
  if (reader.has("partial_rotary_factor") && rotary_factor != outer_factor) {
    reader.problem("partial_rotary_factor", "contradicts the one in rope_parameters");
  }
  rope.rotary_dim = static_cast<std::int32_t>(head_dim * rotary_factor);
  reader.require({"partial_rotary_factor", "head_dim"}, rope.rotary_dim >= 2 && rope.rotary_dim % 2 == 0,
                 "times head_dim gives " + std::to_string(rope.rotary_dim) +
                     " rotary dimensions; an even number of at least 2 is needed");

  if (!parameters && !scaling) return rope;
  const auto type = settings.has("rope_type") ? settings.text("rope_type") : settings.text("type");
  if (!type || *type == "default" || *type == "mrope")
    return rope;  // mrope: text positions are equal on all axes
  if (*type == "llama3") {
    read_llama3_scaling(settings, rope);
  } else if (*type == "yarn") {
    read_yarn_scaling(settings, max_positions, rope);
  } else {
    settings.problem(settings.has("rope_type") ? "rope_type" : "type",
                     "is \"" + std::string(*type) + "\"; supported are default, llama3 and yarn");
  }
  return rope;
}

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

void check_heads(ConfigReader& reader, const ModelConfig& config) {
  reader.require({"num_attention_heads", "num_key_value_heads"}, config.num_heads % config.num_kv_heads == 0,
                 "must be a multiple of num_key_value_heads");
  const std::int64_t width = std::int64_t{config.head_dim} * config.num_heads;
  reader.require({"num_attention_heads", "head_dim"}, width <= limits::kMaxAttentionWidth,
                 "times head_dim is " + std::to_string(width) + ", at most " +
                     std::to_string(limits::kMaxAttentionWidth) + " is possible");
  require_multiple_of_8(reader, {"head_dim", "num_attention_heads", "hidden_size"}, width);
}

void read_llama(ConfigReader& reader, ModelConfig& config) {
  config.family = Family::llama;
  read_common(reader, config);
  config.num_kv_heads = reader.integer("num_key_value_heads", limits::kHeads, config.num_heads);
  if (!reader.has("head_dim")) {
    reader.require({"hidden_size", "num_attention_heads"}, config.hidden_size % config.num_heads == 0,
                   "must be a multiple of num_attention_heads where head_dim is absent");
  }
  config.head_dim = reader.integer("head_dim", limits::kHeadDim, config.hidden_size / config.num_heads);
  config.intermediate_size = reader.integer("intermediate_size", limits::kIntermediate);
  config.layers.assign(static_cast<std::size_t>(reader.integer("num_hidden_layers", limits::kLayers)),
                       LayerKind::full_attention);
  config.rope = read_rope(reader, config.head_dim, config.max_positions, 10000.0, 1.0);
  config.norm_weight = kernels::NormWeight::plain;
  require_multiple_of_8(reader, {"intermediate_size"}, config.intermediate_size);
  check_heads(reader, config);
}

}  // namespace model
