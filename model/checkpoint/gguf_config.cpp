#include "model/checkpoint/gguf_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "model/checkpoint/config_writer.h"
#include "model/checkpoint/gguf_reader.h"
#include "model/text/json_escape.h"

namespace model {
namespace {

struct ArchitectureFacts {
  std::string_view name;
  GgufArchitecture architecture;
  std::string_view model_type;  // config.json's
  bool recurrent, experts, shared_expert, tiled_value_heads;
};
constexpr std::array kArchitectures{
    ArchitectureFacts{"llama", GgufArchitecture::llama, "llama", false, false, false, false},
    ArchitectureFacts{"qwen3", GgufArchitecture::qwen3, "qwen3", false, false, false, false},
    ArchitectureFacts{"qwen3moe", GgufArchitecture::qwen3moe, "qwen3_moe", false, true, false, false},
    ArchitectureFacts{"qwen3next", GgufArchitecture::qwen3next, "qwen3_next", true, true, true, false},
    ArchitectureFacts{"qwen35", GgufArchitecture::qwen35, "qwen3_5", true, false, false, true},
    ArchitectureFacts{"qwen35moe", GgufArchitecture::qwen35moe, "qwen3_5_moe", true, true, true, true},
    ArchitectureFacts{"qwen4exp", GgufArchitecture::qwen4exp, "qwen4_exp", true, true, true, true},
};
constexpr IntegerRange kAny{0, 1 << 30};
constexpr std::size_t kMaxFrequencies = 1024;

/// Keys that change what is computed in ways that none of the served architectures does.
constexpr std::array<std::string_view, 12> kRefusedKeys{"attention.sliding_window",
                                                        "attention.clamp_kqv",
                                                        "attention.max_alibi_bias",
                                                        "attention.scale",
                                                        "attn_logit_softcapping",
                                                        "final_logit_softcapping",
                                                        "logit_scale",
                                                        "residual_scale",
                                                        "embedding_scale",
                                                        "expert_group_count",
                                                        "leading_dense_block_count",
                                                        "rope.scale_linear"};

class Translator {
 public:
  Translator(const GgufModel& model, std::vector<std::string>& problems)
      : model_(model), problems_(problems), reader_(model, problems) {}

  std::optional<GgufConfig> run() {
    constexpr std::string_view key = "general.architecture";
    reader_.require(key);
    const auto name = reader_.text(key);
    if (!name) return std::nullopt;
    const auto found = std::find_if(kArchitectures.begin(), kArchitectures.end(),
                                    [&](const ArchitectureFacts& facts) { return facts.name == *name; });
    if (found == kArchitectures.end()) {
      std::string shown;
      text::append_json_string(shown, name->substr(0, 64));
      reader_.problem(key, "is " + shown + "; supported are " + gguf_architecture_names());
      return std::nullopt;
    }
    facts_ = *found;
    write();
    if (!problems_.empty()) return std::nullopt;
    auto config = parse_model_config(out_.json(), model_.name());
    if (!config.ok()) {
      for (std::string& problem : config.error().problems)
        problems_.push_back(out_.translated(std::move(problem), model_.name()));
      return std::nullopt;
    }
    finish(*config);
    if (!problems_.empty()) return std::nullopt;
    return GgufConfig{facts_.architecture, *std::move(config)};
  }

 private:
  std::string key(std::string_view name) const { return std::string(facts_.name) + '.' + std::string(name); }

  std::optional<std::int64_t> integer(std::string_view name, bool required = false) {
    if (required) reader_.require(key(name));
    return reader_.integer(key(name), kAny);
  }
  /// An integer of the file under another name.
  void copy(std::string_view to, std::string_view name, bool required = true) {
    if (const auto value = integer(name, required)) out_.integer(to, *value, key(name));
  }
  /// One number for all layers, as a number or a list; layers without the block count 0.
  std::optional<std::int64_t> uniform(std::string_view name, bool required) {
    if (required) reader_.require(key(name));
    std::optional<std::int64_t> common;
    for (const std::int64_t value : reader_.integers(key(name))) {
      if (value == 0 && facts_.recurrent) continue;
      if (common && *common != value) {
        reader_.problem(key(name), "differs between layers, which is not supported");
        return std::nullopt;
      }
      common = value;
    }
    if (common && (*common < kAny.min || *common > kAny.max)) {
      reader_.problem(key(name), "is " + std::to_string(*common));
      return std::nullopt;
    }
    return common;
  }

  void write() {
    for (std::string_view name : kRefusedKeys) {
      const std::string full = key(name);
      if (!reader_.has(full)) continue;
      const double neutral = name.ends_with("scale") || name == "rope.scale_linear" ? 1.0 : 0.0;
      const auto value = reader_.number(full);
      if (value && *value != neutral && *value != 0.0)
        reader_.problem(full, "is set, which is not supported for " + std::string(facts_.name));
    }
    out_.text("model_type", facts_.model_type, "general.architecture");
    write_common();
    write_rope();
    if (facts_.experts) {
      write_experts();
    } else {
      if (integer("expert_count").value_or(0) > 0)
        reader_.problem(key("expert_count"),
                        "is set: experts are not supported for " + std::string(facts_.name));
      if (const auto size = uniform("feed_forward_length", true))
        out_.integer("intermediate_size", *size, key("feed_forward_length"));
    }
    if (facts_.recurrent) write_recurrent();
    if (facts_.architecture == GgufArchitecture::qwen4exp) write_qwen4_exp();
  }

  /// Rows of the embedding: what the tensor has is what is computed with.
  void write_vocab_size() {
    if (const TensorEntry* embedding = model_.find("token_embd.weight");
        embedding != nullptr && embedding->shape.size() == 2)
      return out_.integer("vocab_size", embedding->shape.front(), "token_embd.weight");
    if (const auto size = integer("vocab_size")) return out_.integer("vocab_size", *size, key("vocab_size"));
    problems_.push_back(model_.name() + ": tensor token_embd.weight is missing, and key \"" +
                        key("vocab_size") + "\" too");
  }

  void write_common() {
    write_vocab_size();
    copy("hidden_size", "embedding_length");
    copy("max_position_embeddings", "context_length");
    num_layers_ = integer("block_count", true).value_or(1);
    const std::int64_t drafts = integer("nextn_predict_layers").value_or(0);
    if (drafts >= num_layers_) reader_.problem(key("nextn_predict_layers"), "leaves no layer of block_count");
    num_layers_ -= drafts;
    out_.integer("num_hidden_layers", num_layers_, key("block_count"));
    const auto heads = uniform("attention.head_count", true);
    if (heads) out_.integer("num_attention_heads", *heads, key("attention.head_count"));
    if (const auto kv_heads = uniform("attention.head_count_kv", false)) {
      out_.integer("num_key_value_heads", *kv_heads, key("attention.head_count_kv"));
    } else if (heads && !reader_.has(key("attention.head_count_kv"))) {
      out_.integer("num_key_value_heads", *heads, key("attention.head_count"));
    }
    write_head_dim(heads.value_or(1));
    reader_.require(key("attention.layer_norm_rms_epsilon"));
    if (const auto eps = reader_.number(key("attention.layer_norm_rms_epsilon")))
      out_.number("rms_norm_eps", *eps, key("attention.layer_norm_rms_epsilon"));
    out_.raw("tie_word_embeddings", model_.find("output.weight") == nullptr ? "true" : "false");
    const bool has_ple = reader_.has(key("ple.eos_token_id"));
    const std::string eos = has_ple ? key("ple.eos_token_id") : "tokenizer.ggml.eos_token_id";
    if (const auto id = reader_.integer(eos, kAny)) out_.integer("eos_token_id", *id, eos);
    if (const auto id = reader_.integer("tokenizer.ggml.bos_token_id", kAny))
      out_.integer("bos_token_id", *id, "tokenizer.ggml.bos_token_id");
  }

  void write_head_dim(std::int64_t heads) {
    auto dim = integer("attention.key_length");
    if (!dim && heads > 0) dim = integer("embedding_length").value_or(0) / heads;
    head_dim_ = dim.value_or(1);
    out_.integer("head_dim", head_dim_, key("attention.key_length"));
    if (const auto value = integer("attention.value_length"); value && *value != head_dim_)
      reader_.problem(key("attention.value_length"), "differs from attention.key_length");
  }

  void write_rope() {
    ConfigWriter rope;
    rope.number("rope_theta", reader_.number(key("rope.freq_base")).value_or(10000.0));
    const std::int64_t dims = integer("rope.dimension_count").value_or(head_dim_);
    if (dims <= 0 || dims > head_dim_)
      reader_.problem(key("rope.dimension_count"), "is " + std::to_string(dims) + ", of a head of " +
                                                       std::to_string(head_dim_) + " dimensions");
    rope.number("partial_rotary_factor",
                static_cast<double>(dims) / static_cast<double>(std::max<std::int64_t>(head_dim_, 1)));
    const auto type = reader_.text(key("rope.scaling.type")).value_or("none");
    const double factor = reader_.number(key("rope.scaling.factor")).value_or(1.0);
    if (type == "yarn") {
      rope.text("rope_type", "yarn");
      rope.number("factor", factor);
      write_yarn(rope, factor);
    } else if (type != "none" && !(type == "linear" && factor == 1.0)) {
      std::string shown;
      text::append_json_string(shown, type.substr(0, 64));
      reader_.problem(key("rope.scaling.type"), "is " + shown + "; supported are none and yarn");
    }
    for (const char* tensor : {"rope_factors_long.weight", "rope_factors_short.weight"}) {
      if (model_.find(tensor) != nullptr)
        problems_.push_back(model_.name() + ": tensor " + tensor + ": this rope scaling is not supported");
    }
    out_.raw("rope_parameters", rope.json());
  }

  void write_yarn(ConfigWriter& rope, double factor) {
    if (const auto original = integer("rope.scaling.original_context_length"))
      rope.integer("original_max_position_embeddings", *original);
    if (const auto fast = reader_.number(key("rope.scaling.yarn_beta_fast"))) rope.number("beta_fast", *fast);
    if (const auto slow = reader_.number(key("rope.scaling.yarn_beta_slow"))) rope.number("beta_slow", *slow);
    // The file's factor comes on top of what the scaling itself implies.
    if (const auto attention = reader_.number(key("rope.scaling.attn_factor"));
        attention && *attention != 1.0)
      rope.number("attention_factor", *attention * (0.1 * std::log(std::max(factor, 1.0)) + 1.0));
  }

  void write_experts() {
    copy("num_experts", "expert_count");
    copy("num_experts_per_tok", "expert_used_count");
    copy("moe_intermediate_size", "expert_feed_forward_length");
    if (facts_.shared_expert) copy("shared_expert_intermediate_size", "expert_shared_feed_forward_length");
    out_.raw("norm_topk_prob", "true");
    if (const auto scale = reader_.number(key("expert_weights_scale"));
        scale && *scale != 1.0 && *scale != 0.0)
      reader_.problem(key("expert_weights_scale"), "is set, which is not supported");
    if (reader_.boolean(key("expert_weights_norm")) == false)
      reader_.problem(key("expert_weights_norm"), "is false, which is not supported");
    if (const auto gating = integer("expert_gating_func"); gating && *gating > 1)
      reader_.problem(key("expert_gating_func"), "is not softmax, which is not supported");
  }

  void write_recurrent() {
    copy("linear_conv_kernel_dim", "ssm.conv_kernel");
    copy("linear_key_head_dim", "ssm.state_size");
    copy("linear_num_key_heads", "ssm.group_count");
    copy("linear_num_value_heads", "ssm.time_step_rank");
    const auto inner = integer("ssm.inner_size", true), heads = integer("ssm.time_step_rank");
    if (inner && heads) {
      const bool whole = *heads > 0 && *inner % *heads == 0;
      if (!whole) reader_.problem(key("ssm.inner_size"), "is no multiple of ssm.time_step_rank");
      if (whole) out_.integer("linear_value_head_dim", *inner / *heads, key("ssm.inner_size"));
    }
    out_.text("output_gate_type", facts_.architecture == GgufArchitecture::qwen4exp ? "sigmoid" : "silu");
    const std::int64_t interval = std::max<std::int64_t>(1, integer("full_attention_interval").value_or(4));
    std::string types = "[";
    for (std::int64_t i = 0; i < num_layers_ && i < limits::kLayers.max; ++i) {
      types += i == 0 ? "" : ",";
      types += (i + 1) % interval == 0 ? "\"full_attention\"" : "\"linear_attention\"";
    }
    out_.raw("layer_types", types + "]", key("full_attention_interval"));
    out_.integer("mtp_num_hidden_layers", 0);
    out_.integer("num_nextn_predict_layers", 0);
  }

  void write_qwen4_exp() {
    copy("hc_count", "hyper_connection.count");
    copy("hc_lowrank", "hyper_connection.low_rank");
    if (reader_.has(key("attention.indexer.head_count"))) {
      copy("indexer_n_heads", "attention.indexer.head_count");
      copy("indexer_head_dim", "attention.indexer.key_length");
      copy("indexer_budget", "attention.indexer.top_k");
      out_.integer("indexer_kv_heads", 1);
      if (const auto ratio = uniform("attention.compress_ratios", true))
        out_.integer("indexer_compress_ratio", *ratio, key("attention.compress_ratios"));
    }
    if (reader_.has(key("ple.layers"))) write_ple();
  }

  /// Base and seed of the hash are not in the file. The base is at most the first head's prime, and finds the
  /// same primes from there; the seed is the published one, and the multipliers say whether it was.
  void write_ple() {
    std::string layers = "[";
    for (const std::int64_t layer : reader_.integers(key("ple.layers")))
      layers += (layers.size() > 1 ? "," : "") + std::to_string(layer + 1);
    out_.raw("ple_layer_ids", layers + "]", key("ple.layers"));
    copy("ngram_size", "ple.ngram_size");
    copy("heads_per_ngram", "ple.heads_per_ngram");
    copy("ple_conv_kernel_size", "ple.conv_kernel");
    const auto ngram = integer("ple.ngram_size"), heads = integer("ple.heads_per_ngram"),
               width = integer("embedding_length_per_layer_input", true);
    if (ngram && heads && width && *ngram < 64 && *heads < 1024 && *width <= limits::kHidden.max)
      out_.integer("ple_embed_dim", *width * (*ngram - 1) * *heads, key("embedding_length_per_layer_input"));
    reader_.require(key("ple.head_vocab_sizes"));
    const auto sizes = reader_.integers(key("ple.head_vocab_sizes"));
    if (!sizes.empty()) out_.integer("ngram_vocab_size_base", sizes.front(), key("ple.head_vocab_sizes"));
    out_.integer("split_ngram_parts", 1);
  }

  /// What the same numbers mean in a GGUF file.
  void finish(ModelConfig& config) {
    config.norm_weight = kernels::NormWeight::plain;  // 1 is added in the file where the family adds it
    if (config.gdn) {
      config.gdn->decay = kernels::GdnDecay::negative_rate;
      if (facts_.tiled_value_heads) config.gdn->value_heads = kernels::ValueHeads::tiled;
    }
    if (config.indexer) check_ratios(config);
    if (const TensorEntry* factors = model_.find("rope_freqs.weight"))
      read_frequencies(*factors, config.rope);
  }

  void check_ratios(const ModelConfig& config) {
    const auto ratios = reader_.integers(key("attention.compress_ratios"));
    for (std::size_t i = 0; i < config.layers.size() && ratios.size() > 1; ++i) {
      const bool selects = config.layers[i] == LayerKind::sparse_attention;
      if (i < ratios.size() && (ratios[i] != 0) == selects) continue;
      reader_.problem(key("attention.compress_ratios"),
                      "does not fit full_attention_interval at layer " + std::to_string(i));
      return;
    }
  }

  void read_frequencies(const TensorEntry& factors, RopeConfig& rope) {
    const std::string what = model_.name() + ": tensor rope_freqs.weight ";
    const std::vector<std::int64_t> shape{rope.rotary_dim / 2};
    if (factors.type != StoredType(gpu::DType::f32) || factors.shape != shape ||
        shape[0] > static_cast<std::int64_t>(kMaxFrequencies)) {
      problems_.push_back(what + "is " + to_string(factors.type) + " " + to_string(factors.shape) + "; f32 " +
                          to_string(shape) + " is needed");
      return;
    }
    rope.frequency_divisors.resize(static_cast<std::size_t>(shape[0]));
    for (const auto& file : model_.files) {
      for (const TensorEntry& entry : file->tensors()) {
        if (&entry == &factors)
          std::memcpy(rope.frequency_divisors.data(), file->bytes(entry),
                      static_cast<std::size_t>(entry.bytes));
      }
    }
    for (const float divisor : rope.frequency_divisors) {
      if (std::isfinite(divisor) && divisor > 0.0F) continue;
      problems_.push_back(what + "holds a number that is not above 0");
      return;
    }
  }

  const GgufModel& model_;
  std::vector<std::string>& problems_;
  GgufReader reader_;
  ArchitectureFacts facts_ = kArchitectures.front();
  ConfigWriter out_;
  std::int64_t num_layers_ = 1, head_dim_ = 1;
};

}  // namespace

std::string gguf_architecture_names() {
  std::string names;
  for (const ArchitectureFacts& facts : kArchitectures)
    names += (names.empty() ? "" : ", ") + std::string(facts.name);
  return names;
}

Result<GgufConfig, LoadError> read_gguf_config(const GgufModel& model) {
  LoadError error;
  auto config = Translator(model, error.problems).run();
  if (!config) return error;
  return *std::move(config);
}

}  // namespace model
