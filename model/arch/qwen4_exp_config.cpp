#include <algorithm>
#include <array>

#include "model/arch/family_config.h"

namespace model {
namespace {

constexpr std::array<std::string_view, 5> kIndexerKeys{
    "indexer_n_heads", "indexer_kv_heads", "indexer_head_dim", "indexer_budget", "indexer_compress_ratio"};

/// Three releases, three names for the same layer.
const std::vector<std::string_view> kSparseNames{"full_attention", "qwen_sparse_attention",
                                                 "indexed_attention"};

bool is_sparse(std::string_view name) {
  return std::find(kSparseNames.begin(), kSparseNames.end(), name) != kSparseNames.end();
}

std::optional<IndexerConfig> read_indexer(ConfigReader& reader, std::int32_t rotary_dim) {
  const auto present = [&](std::string_view key) { return reader.has(key); };
  if (std::none_of(kIndexerKeys.begin(), kIndexerKeys.end(), present)) return std::nullopt;
  IndexerConfig indexer;
  indexer.num_heads = reader.integer("indexer_n_heads", limits::kHeads);
  indexer.head_dim = reader.integer("indexer_head_dim", limits::kHeadDim);
  indexer.budget = reader.integer("indexer_budget", {1, 1 << 24});
  indexer.ratio = reader.integer("indexer_compress_ratio", {1, 64});
  const std::int32_t kv_heads = reader.integer("indexer_kv_heads", limits::kHeads);
  reader.require({"indexer_kv_heads"}, kv_heads == 1,
                 "is " + std::to_string(kv_heads) + "; only 1 is supported");
  reader.require({"indexer_budget", "indexer_compress_ratio"}, indexer.budget % indexer.ratio == 0,
                 "is " + std::to_string(indexer.budget) + ", not a multiple of indexer_compress_ratio " +
                     std::to_string(indexer.ratio));
  reader.require({"indexer_head_dim", "head_dim", "partial_rotary_factor"}, rotary_dim <= indexer.head_dim,
                 "is " + std::to_string(indexer.head_dim) + ", below the " + std::to_string(rotary_dim) +
                     " rotary dimensions");
  return indexer;
}

/// Without an indexer the layer is dense, and only the name that says nothing about it is right.
std::vector<LayerKind> read_layers(ConfigReader& reader, bool has_indexer) {
  if (has_indexer) {
    return read_hybrid_layers(reader, LayerKind::sparse_attention, kSparseNames, std::nullopt);
  }
  return read_hybrid_layers(reader, LayerKind::full_attention, {"full_attention"}, std::nullopt);
}

void read_output_gate(ConfigReader& reader, GdnConfig& gdn) {
  const auto gate = reader.text("output_gate_type").value_or(reader.text("hidden_act").value_or("silu"));
  if (gate == "sigmoid") {
    gdn.output_gate = kernels::GateActivation::sigmoid;
  } else if (gate != "silu" && gate != "swish") {
    reader.problem("output_gate_type",
                   "is \"" + std::string(gate) + "\"; supported are sigmoid, silu and swish");
  }
}

std::optional<PleConfig> read_ple(ConfigReader& reader, const ModelConfig& config) {
  const std::vector<std::int32_t> ids = reader.integers("ple_layer_ids", limits::kLayers);
  if (ids.empty()) return std::nullopt;
  PleConfig ple;
  for (std::int32_t id : ids) ple.layers.push_back(id - 1);  // the file counts from one
  std::sort(ple.layers.begin(), ple.layers.end());
  ple.layers.erase(std::unique(ple.layers.begin(), ple.layers.end()), ple.layers.end());
  ple.embed_dim = reader.integer("ple_embed_dim", limits::kHidden);
  ple.conv_kernel = reader.integer("ple_conv_kernel_size", limits::kTaps, 4);
  ple.ngram_size = reader.integer("ngram_size", {2, 8});
  ple.heads_per_ngram = reader.integer("heads_per_ngram", {1, 16});
  ple.vocab_size_base = reader.integer64("ngram_vocab_size_base", {2, 1 << 30});
  ple.divisible_by = reader.integer64("make_ngram_vocab_size_divisible_by", {1, 1 << 20}, 128);
  ple.seed = reader.integer64("seed", {0, std::int64_t{1} << 62}, 1234);
  ple.split_parts = reader.integer("split_ngram_parts", {1, 1 << 16}, 512);
  ple.eos = config.eos.empty() ? 0 : config.eos.front();

  reader.require({"ple_layer_ids"}, ple.layers.size() <= 64, "names more than 64 layers");
  for (LayerIndex layer : ple.layers) {
    const bool exists = static_cast<std::size_t>(layer) < config.layers.size();
    reader.require({"ple_layer_ids", "num_hidden_layers", "layer_types", "full_attention_interval"},
                   exists && config.layers[static_cast<std::size_t>(layer)] == LayerKind::linear_attention,
                   "names layer " + std::to_string(layer + 1) +
                       " (counted from 1), which is not a linear-attention layer of this model");
  }
  reader.require({"ple_embed_dim", "ngram_size", "heads_per_ngram"}, ple.embed_dim % ple.num_heads() == 0,
                 "is " + std::to_string(ple.embed_dim) + ", not a multiple of the " +
                     std::to_string(ple.num_heads()) + " n-gram heads");
  require_multiple_of_8(reader, {"ple_embed_dim"}, ple.embed_dim);
  reader.require({"eos_token_id"}, !config.eos.empty(), "is missing; the n-gram hash needs it");
  reader.require({"eos_token_id", "vocab_size"}, ple.eos < config.vocab_size,
                 "is " + std::to_string(ple.eos) + ", not below vocab_size");
  if (reader.has("ple_embedding_dtype")) {
    const auto dtype = reader.text("ple_embedding_dtype").value_or("");
    reader.require({"ple_embedding_dtype"}, dtype == "bfloat16" || dtype == "float16" || dtype == "float32",
                   "is \"" + std::string(dtype) + "\": quantised checkpoints are not supported");
  }
  return ple;
}

std::optional<MtpConfig> read_mtp(ConfigReader& reader, double theta) {
  const IntegerRange range{0, 1};  // one draft layer, or none
  std::int32_t num_layers = reader.integer("mtp_num_hidden_layers", range, 0);
  if (auto mtp = reader.object("mtp")) {
    const std::int32_t inner = mtp->integer("num_hidden_layers", range, num_layers);
    if (!reader.has("mtp_num_hidden_layers")) num_layers = inner;
    mtp->require({"num_hidden_layers"}, inner == num_layers || reader.is_wrong("mtp_num_hidden_layers"),
                 "contradicts mtp_num_hidden_layers");
    if (mtp->has("mtp_use_hidden_state_from_layer")) {
      mtp->problem("mtp_use_hidden_state_from_layer", "is set; only null is supported");
    }
    for (std::string_view name : mtp->texts("layer_types").value_or(std::vector<std::string_view>{})) {
      mtp->require({"layer_types"}, is_sparse(name),
                   "names \"" + std::string(name) + "\"; only attention is supported");
    }
    const double mtp_theta = mtp->number("rope_theta", {1.0, 1e12}, theta);
    mtp->require({"rope_theta"}, mtp_theta == theta || reader.is_wrong("rope_theta"),
                 "differs from the base model's");
  }
  if (reader.boolean("mtp_use_dedicated_embeddings", false)) {
    reader.problem("mtp_use_dedicated_embeddings", "is true; only shared embeddings are supported");
  }
  if (num_layers == 0) return std::nullopt;
  return MtpConfig{num_layers};
}

}  // namespace

void read_qwen4_exp(ConfigReader& reader, ModelConfig& config) {
  config.family = Family::qwen4_exp;
  config.norm_weight = kernels::NormWeight::one_plus;
  config.attention_output_gate = true;
  config.qk_norm = true;
  read_common(reader, config);
  read_heads(reader, config, std::nullopt, std::nullopt);
  read_rope(reader, config, std::nullopt, 0.25);
  config.indexer = read_indexer(reader, config.rope.rotary_dim);
  config.layers = read_layers(reader, config.indexer.has_value());
  config.gdn = read_gdn(reader);
  read_output_gate(reader, *config.gdn);
  config.moe = read_moe(reader, SharedExpert::gated);
  config.moe->renormalize = reader.boolean("norm_topk_prob", true);
  reader.require({"mlp_only_layers"}, reader.integers("mlp_only_layers", limits::kLayerIndex).empty(),
                 "names layers; every layer of this family is a mixture of experts");
  HyperConnectionConfig streams;
  streams.num_streams = reader.integer("hc_count", limits::kStreams);
  streams.low_rank = reader.integer("hc_lowrank", limits::kHidden);
  require_multiple_of_8(reader, {"hc_lowrank"}, streams.low_rank);
  config.hyper_connection = streams;
  config.ple = read_ple(reader, config);
  config.mtp = read_mtp(reader, config.rope.theta);
}

}  // namespace model
