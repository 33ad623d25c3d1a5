#pragma once

#include "model/arch/config_reader.h"
#include "model/arch/model_config.h"

namespace model {

/// The keys that all families share, except head_dim, layers and those of the rope.
void read_common(ConfigReader& reader, ModelConfig& config);

/// num_key_value_heads and head_dim; heads of queries and of keys and values must agree, and head_dim with
/// them. Without a fallback a key is required.
void read_heads(ConfigReader& reader, ModelConfig& config, std::optional<std::int32_t> default_kv_heads,
                std::optional<std::int32_t> default_head_dim);

/// Rope settings, in the new form (rope_parameters) or the old one (rope_theta, rope_scaling). YaRN raises
/// max_positions to what it stretches them to. Reads after max_positions and head_dim.
void read_rope(ConfigReader& reader, ModelConfig& config, std::optional<double> default_theta,
               double default_rotary_factor);

/// layer_types, or the pattern "every full_attention_interval-th layer attends" where it is absent.
/// `attention_names`: what the files call `attention`.
std::vector<LayerKind> read_hybrid_layers(ConfigReader& reader, LayerKind attention,
                                          const std::vector<std::string_view>& attention_names,
                                          std::optional<std::int64_t> default_interval);

/// Gated delta nets; the output gate is the family's matter.
GdnConfig read_gdn(ConfigReader& reader);

enum class SharedExpert { none, gated };
/// Experts; whether the router renormalises is the family's matter.
MoeConfig read_moe(ConfigReader& reader, SharedExpert shared);
/// mlp_only_layers and decoder_sparse_step: which layers have a plain MLP instead, and its size.
void read_dense_layers(ConfigReader& reader, ModelConfig& config);
void read_dense_mlp(ConfigReader& reader, ModelConfig& config);

/// A size that is the inner dimension of a projection.
void require_multiple_of_8(ConfigReader& reader, std::initializer_list<std::string_view> keys,
                           std::int64_t value);

void read_llama(ConfigReader& reader, ModelConfig& config);
void read_qwen3(ConfigReader& reader, ModelConfig& config);
void read_qwen3_moe(ConfigReader& reader, ModelConfig& config);
void read_qwen3_next(ConfigReader& reader, ModelConfig& config);
void read_qwen3_5(ConfigReader& reader, ModelConfig& config);
void read_qwen3_5_moe(ConfigReader& reader, ModelConfig& config);
void read_qwen4_exp(ConfigReader& reader, ModelConfig& config);

}  // namespace model
