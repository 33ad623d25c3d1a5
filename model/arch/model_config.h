#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/norm.h"
#include "kernels/recurrent.h"
#include "model/errors.h"
#include "model/ids.h"

namespace model {

enum class Family { llama, qwen3, qwen3_moe, qwen3_next, qwen3_5, qwen3_5_moe, qwen4_exp };
enum class LayerKind { linear_attention, full_attention, sparse_attention };

struct RopeConfig {
  enum class Type { plain, llama3, yarn } type = Type::plain;
  double theta = 10000.0;
  std::int32_t rotary_dim = 0;
  double factor = 1.0, low_freq_factor = 1.0, high_freq_factor = 4.0;  // llama3
  std::int32_t original_max_positions = 0;
  double beta_fast = 32.0, beta_slow = 1.0, attention_factor = 0.0, mscale = 0.0,
         mscale_all_dim = 0.0;  // yarn; 0: derived
  std::vector<float> frequency_divisors;  ///< of a GGUF file's llama3 scaling; empty: none
};
/// inv_freq [rotary_dim/2] in fp32 and the attention factor, as HF's ROPE_INIT_FUNCTIONS compute them.
struct RopeTable {
  std::vector<float> inv_freq;
  float attention_factor = 1.0F;
};
RopeTable make_rope_table(const RopeConfig& config);

struct GdnConfig {
  std::int32_t num_k_heads = 0, num_v_heads = 0, k_dim = 0, v_dim = 0, conv_kernel = 4;
  kernels::GateActivation output_gate = kernels::GateActivation::silu;
  kernels::ValueHeads value_heads = kernels::ValueHeads::grouped;
  kernels::GdnDecay decay = kernels::GdnDecay::log_rate;
  std::int32_t key_width() const { return num_k_heads * k_dim; }
  std::int32_t value_width() const { return num_v_heads * v_dim; }
  std::int32_t conv_width() const { return 2 * key_width() + value_width(); }
};
struct MoeConfig {
  std::int32_t num_experts = 0, top_k = 0, intermediate = 0;
  std::int32_t shared_intermediate = 0;  ///< 0: no shared expert
  bool renormalize = true;
};
struct HyperConnectionConfig {
  std::int32_t num_streams = 0, low_rank = 0;
};
struct PleConfig {
  std::vector<LayerIndex> layers;  ///< zero-based, ascending
  std::int32_t embed_dim = 0, conv_kernel = 4, ngram_size = 3, heads_per_ngram = 8;
  std::int64_t vocab_size_base = 0, divisible_by = 128, seed = 1234;
  std::int32_t split_parts = 1;
  TokenId eos = 0;
  std::int32_t num_heads() const { return (ngram_size - 1) * heads_per_ngram; }
  std::int32_t head_dim() const { return embed_dim / num_heads(); }
  std::int32_t conv_history() const { return (conv_kernel - 1) * ngram_size; }  ///< dilation is ngram_size
};
struct IndexerConfig {
  std::int32_t num_heads = 0, head_dim = 0, budget = 0, ratio = 0;
  std::int32_t top_blocks() const { return budget / ratio; }
  /// The longest sequence of which nothing is left out.
  std::int32_t bound() const { return budget + ratio - 1; }
};
struct MtpConfig {
  std::int32_t num_layers = 0;
  bool required =
      true;  ///< false: a checkpoint without any of its tensors is whole, whatever the config says
};

/// A checkpoint's config.json, flat or nested under text_config, resolved: every default of the family filled
/// in, every unsupported value refused.
struct ModelConfig {
  Family family = Family::llama;
  std::string model_type;
  std::int32_t vocab_size = 0, hidden_size = 0;
  std::vector<LayerKind> layers;
  std::int32_t num_heads = 0, num_kv_heads = 0, head_dim = 0;
  bool attention_output_gate = false;  ///< q_proj carries a sigmoid gate per head
  bool qk_norm = false;
  kernels::NormWeight norm_weight = kernels::NormWeight::plain;
  float rms_norm_eps = 1e-6F;
  RopeConfig rope;
  std::int32_t intermediate_size = 0;    ///< dense MLP; 0 when every layer is MoE
  std::vector<LayerIndex> dense_layers;  ///< ascending: those of a model with experts that have none
  std::optional<GdnConfig> gdn;
  std::optional<MoeConfig> moe;
  std::optional<HyperConnectionConfig> hyper_connection;
  std::optional<PleConfig> ple;
  std::optional<IndexerConfig> indexer;
  std::optional<MtpConfig> mtp;
  std::int32_t max_positions = 0;
  std::vector<TokenId> eos;  ///< config.json's; generation_config.json's stop tokens are read beside it
  std::optional<TokenId> bos;
  bool tied_embeddings = false;

  bool has_experts(LayerIndex layer) const {
    return moe && std::find(dense_layers.begin(), dense_layers.end(), layer) == dense_layers.end();
  }
};

/// All problems at once, each naming `file` and the key.
Result<ModelConfig, LoadError> parse_model_config(std::string_view json, std::string_view file);

/// generation_config.json: defaults of sampling and the ids that end a generation. max_new_tokens is ignored
/// on purpose.
struct GenerationDefaults {
  std::vector<TokenId> eos;  ///< empty: the config's
  std::optional<bool> do_sample;
  std::optional<float> temperature, top_p, min_p, repetition_penalty;
  std::optional<std::int32_t> top_k;
};
Result<GenerationDefaults, LoadError> parse_generation_config(std::string_view json, std::string_view file);

}  // namespace model
