#pragma once

#include "model/arch/config_reader.h"
#include "model/arch/model_config.h"

namespace model {

/// Rope settings, in the new form (rope_parameters) or the old one (rope_theta, rope_scaling).
RopeConfig read_rope(ConfigReader& reader, std::int32_t head_dim, std::int32_t max_positions,
                     std::optional<double> default_theta, double default_rotary_factor);

/// The keys that all families share, except head_dim and layers.
void read_common(ConfigReader& reader, ModelConfig& config);

/// Heads of queries and of keys and values must agree, and head_dim with them.
void check_heads(ConfigReader& reader, const ModelConfig& config);

/// A size that is the inner dimension of a projection.
void require_multiple_of_8(ConfigReader& reader, std::initializer_list<std::string_view> keys,
                           std::int64_t value);

void read_llama(ConfigReader& reader, ModelConfig& config);
void read_qwen4_exp(ConfigReader& reader, ModelConfig& config);

}  // namespace model
