#pragma once

#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/arch/model_config.h"

namespace model::testing_config {

using nlohmann::json;

inline json fixture(const std::string& name) {
  std::ifstream file(std::string(ATLAS_FIXTURES) + "/" + name + "/config.json");
  return json::parse(file);
}
/// `change` is a JSON merge patch: null takes a key away.
inline json changed(json config, const char* change) {
  config.merge_patch(json::parse(change));
  return config;
}
inline Result<ModelConfig, LoadError> parse(const json& config) {
  return parse_model_config(config.dump(), "config.json");
}
inline ModelConfig parsed(const json& config) {
  auto result = parse(config);
  EXPECT_TRUE(result.ok()) << testing::PrintToString(result.ok() ? std::vector<std::string>{}
                                                                 : result.error().problems);
  return result.ok() ? std::move(result).value() : ModelConfig{};
}

/// The published config of the real model, as far as it concerns text.
inline json real_config() {
  return json::parse(R"({"architectures": ["Qwen4ExpForConditionalGeneration"], "model_type": "qwen4_exp",
    "tie_word_embeddings": false, "vision_config": {"depth": 27}, "text_config": {"model_type": "qwen4_exp_text",
    "vocab_size": 248320, "hidden_size": 2560, "num_hidden_layers": 48, "full_attention_interval": 4,
    "num_attention_heads": 24, "num_key_value_heads": 2, "head_dim": 256, "attention_bias": false,
    "rms_norm_eps": 1e-6, "hidden_act": "silu", "output_gate_type": "sigmoid", "linear_num_key_heads": 16,
    "linear_num_value_heads": 48, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4, "mamba_ssm_dtype": "float32", "num_experts": 512, "num_experts_per_tok": 10,
    "moe_intermediate_size": 640, "shared_expert_intermediate_size": 640, "hc_count": 4, "hc_lowrank": 320,
    "ple_layer_ids": [2], "ple_embed_dim": 2560, "ple_conv_kernel_size": 4, "ngram_size": 3, "heads_per_ngram": 8,
    "ngram_vocab_size_base": 20000000, "make_ngram_vocab_size_divisible_by": 128, "split_ngram_parts": 128,
    "indexer_n_heads": 4, "indexer_kv_heads": 1, "indexer_head_dim": 128, "indexer_budget": 2048,
    "indexer_compress_ratio": 4, "partial_rotary_factor": 0.25, "rope_parameters": {"rope_type": "default",
    "rope_theta": 10000000, "partial_rotary_factor": 0.25, "mrope_interleaved": true, "mrope_section": [11, 11, 10]},
    "max_position_embeddings": 262144, "bos_token_id": 248044, "eos_token_id": 248044, "pad_token_id": null,
    "tie_word_embeddings": false, "mtp_num_hidden_layers": 1, "mtp_use_dedicated_embeddings": false,
    "mtp": {"hybrid": true, "layer_types": ["full_attention"], "mtp_use_hidden_state_from_layer": null,
    "num_hidden_layers": 1, "rope_theta": 10000000}}})");
}

struct Refusal {
  const char* change;
  std::vector<const char*> says;  // one problem that holds all of these
};
inline void expect_refused(const char* fixture_name, const Refusal& refusal) {
  SCOPED_TRACE(refusal.change);
  const auto result = parse(changed(fixture(fixture_name), refusal.change));
  ASSERT_FALSE(result.ok());
  ASSERT_THAT(result.error().problems, testing::SizeIs(1));
  EXPECT_THAT(result.error().problems[0], testing::HasSubstr("config.json: "));
  for (const char* part : refusal.says) EXPECT_THAT(result.error().problems[0], testing::HasSubstr(part));
}

}  // namespace model::testing_config
