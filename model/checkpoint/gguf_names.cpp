#include "model/checkpoint/gguf_names.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

#include "model/arch/ple_constants.h"
#include "model/checkpoint/gguf_reader.h"

namespace model {
namespace {

using Architecture = GgufArchitecture;

struct Renaming {
  std::string_view safetensors, gguf;
};
/// What stands behind "model.".
constexpr std::array kModelNames{
    Renaming{"embed_tokens.weight", "token_embd.weight"},
    Renaming{"norm.weight", "output_norm.weight"},
    Renaming{"hyper_connection_mixer.hc_norm.weight", "output_hc_norm.weight"},
    Renaming{"hyper_connection_mixer.input_mix_weight_down.weight", "output_hc_down.weight"},
    Renaming{"hyper_connection_mixer.input_mix_weight_up.weight", "output_hc_up.weight"},
};
/// What stands behind "model.layers.N." and "blk.N.".
constexpr std::array kLayerNames{
    Renaming{"input_layernorm.weight", "attn_norm.weight"},
    Renaming{"self_attn.q_proj.weight", "attn_q.weight"},
    Renaming{"self_attn.k_proj.weight", "attn_k.weight"},
    Renaming{"self_attn.v_proj.weight", "attn_v.weight"},
    Renaming{"self_attn.o_proj.weight", "attn_output.weight"},
    Renaming{"self_attn.q_norm.weight", "attn_q_norm.weight"},
    Renaming{"self_attn.k_norm.weight", "attn_k_norm.weight"},
    Renaming{"self_attn.indexer.q_layernorm.weight", "indexer.q_norm.weight"},
    Renaming{"self_attn.indexer.k_layernorm.weight", "indexer.k_norm.weight"},
    Renaming{"linear_attn.in_proj_qkv.weight", "attn_qkv.weight"},
    Renaming{"linear_attn.in_proj_qkvz.weight", "ssm_in.weight"},
    Renaming{"linear_attn.in_proj_z.weight", "attn_gate.weight"},
    Renaming{"linear_attn.in_proj_ba.weight", "ssm_ba.weight"},
    Renaming{"linear_attn.in_proj_a.weight", "ssm_alpha.weight"},
    Renaming{"linear_attn.in_proj_b.weight", "ssm_beta.weight"},
    Renaming{"linear_attn.conv1d.weight", "ssm_conv1d.weight"},
    Renaming{"linear_attn.A_log", "ssm_a"},
    Renaming{"linear_attn.dt_bias", "ssm_dt.bias"},
    Renaming{"linear_attn.norm.weight", "ssm_norm.weight"},
    Renaming{"linear_attn.out_proj.weight", "ssm_out.weight"},
    Renaming{"mlp.gate_proj.weight", "ffn_gate.weight"},
    Renaming{"mlp.up_proj.weight", "ffn_up.weight"},
    Renaming{"mlp.down_proj.weight", "ffn_down.weight"},
    Renaming{"mlp.gate.weight", "ffn_gate_inp.weight"},
    Renaming{"mlp.experts.down_proj", "ffn_down_exps.weight"},
    Renaming{"mlp.shared_expert.gate_proj.weight", "ffn_gate_shexp.weight"},
    Renaming{"mlp.shared_expert.up_proj.weight", "ffn_up_shexp.weight"},
    Renaming{"mlp.shared_expert.down_proj.weight", "ffn_down_shexp.weight"},
    Renaming{"mlp.shared_expert_gate.weight", "ffn_gate_inp_shexp.weight"},
    Renaming{"attn_hyper_connection.hc_norm.weight", "hc_attn_norm.weight"},
    Renaming{"attn_hyper_connection.input_mix_weight_down.weight", "hc_attn_down.weight"},
    Renaming{"attn_hyper_connection.input_mix_weight_up.weight", "hc_attn_up.weight"},
    Renaming{"attn_hyper_connection.block_inject_weight.weight", "hc_attn_inject.weight"},
    Renaming{"mlp_hyper_connection.hc_norm.weight", "hc_ffn_norm.weight"},
    Renaming{"mlp_hyper_connection.input_mix_weight_down.weight", "hc_ffn_down.weight"},
    Renaming{"mlp_hyper_connection.input_mix_weight_up.weight", "hc_ffn_up.weight"},
    Renaming{"mlp_hyper_connection.block_inject_weight.weight", "hc_ffn_inject.weight"},
    Renaming{"ple.key_proj.weight", "ple_key.weight"},
    Renaming{"ple.value_proj.weight", "ple_value.weight"},
    Renaming{"ple.norm_key.weight", "ple_norm_key.weight"},
    Renaming{"ple.norm_query.weight", "ple_norm_query.weight"},
    Renaming{"ple.norm_conv.weight", "ple_norm_conv.weight"},
    Renaming{"ple.conv1d.weight", "ple_conv1d.weight"},
};
constexpr std::string_view kModelPrefix = "model.", kLayersPrefix = "model.layers.",
                           kTableName = "ple.ple_embedding.ngram_embedding.weight",
                           kTableTensor = "per_layer_token_embd.weight";

template <std::size_t N>
std::string_view look_up(const std::array<Renaming, N>& names, std::string_view name) {
  for (const Renaming& renaming : names)
    if (renaming.safetensors == name) return renaming.gguf;
  return {};
}

/// Layer and rest of "model.layers.N.rest"; a rest of "" for any other name.
struct LayerName {
  std::string_view layer, rest;
};
LayerName split_layer(std::string_view name) {
  if (!name.starts_with(kLayersPrefix)) return {};
  name.remove_prefix(kLayersPrefix.size());
  const auto dot = name.find('.');
  if (dot == std::string_view::npos) return {};
  return {name.substr(0, dot), name.substr(dot + 1)};
}

std::string in_layer(std::string_view layer, std::string_view tensor) {
  return "blk." + std::string(layer) + '.' + std::string(tensor);
}

std::vector<std::int64_t> without_ones(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> rest;
  std::copy_if(shape.begin(), shape.end(), std::back_inserter(rest), [](std::int64_t n) { return n != 1; });
  return rest;
}

std::int64_t rows_of(const std::vector<std::int64_t>& shape) {
  std::int64_t rows = 1;
  for (std::size_t i = 0; i + 1 < shape.size(); ++i) rows *= shape[i];
  return rows;
}

}  // namespace

GgufNames::GgufNames(GgufConfig config, const Checkpoint& checkpoint)
    : config_(std::move(config)), checkpoint_(checkpoint) {}

std::string GgufNames::renamed(std::string_view name) const {
  if (name == "lm_head.weight") return "output.weight";
  if (const auto [layer, rest] = split_layer(name); !rest.empty()) {
    if (rest == "post_attention_layernorm.weight")
      return in_layer(layer, config_.config.gdn ? "post_attention_norm.weight" : "ffn_norm.weight");
    const std::string_view found = look_up(kLayerNames, rest);
    return found.empty() ? std::string() : in_layer(layer, found);
  }
  if (!name.starts_with(kModelPrefix)) return {};
  return std::string(look_up(kModelNames, name.substr(kModelPrefix.size())));
}

/// Files leave dimensions of 1 out or keep them, as their writer likes.
GgufPiece GgufNames::whole(std::string tensor, const std::vector<std::int64_t>& shape) const {
  GgufPiece piece{std::move(tensor), shape, 0, rows_of(shape)};
  const auto found = checkpoint_.tensors().find(piece.tensor);
  if (found != checkpoint_.tensors().end() && without_ones(found->second.entry->shape) == without_ones(shape))
    piece.shape = found->second.entry->shape;
  return piece;
}

/// Row (head, half, i) of safetensors is row (head, i, half) of the file.
std::vector<GgufPiece> GgufNames::by_pairs(const std::string& tensor,
                                           const std::vector<std::int64_t>& shape) const {
  std::vector<GgufPiece> pieces;
  const std::int64_t dim = config_.config.head_dim, half = dim / 2;
  for (std::int64_t head = 0; head < shape.front() / dim; ++head) {
    for (std::int64_t a = 0; a < 2; ++a)
      pieces.push_back({tensor, shape, head * dim + a * half, half, head * dim + a, 2});
  }
  return pieces;
}

/// `groups` times: rows[0] rows of the first tensor, rows[1] of the second, …
std::vector<GgufPiece> GgufNames::joined(const std::vector<std::string>& tensors,
                                         std::vector<std::int64_t> rows, std::int64_t groups,
                                         std::int64_t cols) const {
  std::vector<GgufPiece> pieces;
  std::int64_t row = 0;
  for (std::int64_t group = 0; group < groups; ++group) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const std::vector<std::int64_t> shape = groups == 1 ? std::vector<std::int64_t>{rows[i], cols}
                                                          : std::vector<std::int64_t>{groups, rows[i], cols};
      pieces.push_back({tensors[i], shape, row, rows[i], group * rows[i]});
      row += rows[i];
    }
  }
  return pieces;
}

/// The tables of all layers lie one after another in one tensor.
std::vector<GgufPiece> GgufNames::table_rows(std::string_view layer,
                                             const std::vector<std::int64_t>& shape) const {
  const ModelConfig& config = config_.config;
  std::int64_t total = 0, first = 0;
  for (std::size_t i = 0; config.ple && i < config.ple->layers.size(); ++i) {
    if (std::to_string(config.ple->layers[i]) == layer) first = total;
    total += derive_ple_constants(*config.ple, config.vocab_size, static_cast<std::int32_t>(i)).table_rows;
  }
  return {{std::string(kTableTensor), {total, shape.back()}, 0, shape.front(), first}};
}

std::vector<GgufPiece> GgufNames::pieces(std::string_view name,
                                         const std::vector<std::int64_t>& shape) const {
  const ModelConfig& config = config_.config;
  const auto [layer, rest] = split_layer(name);
  if (rest == kTableName) return table_rows(layer, shape);
  if (rest == "mlp.experts.gate_up_proj") {
    std::string fused = in_layer(layer, "ffn_gate_up_exps.weight");
    if (checkpoint_.has(fused)) return {whole(std::move(fused), shape)};
    const std::int64_t experts = shape[0], inner = shape[1] / 2;
    return joined({in_layer(layer, "ffn_gate_exps.weight"), in_layer(layer, "ffn_up_exps.weight")},
                  {inner, inner}, experts, shape[2]);
  }
  if (rest == "self_attn.indexer.index_qk_proj.weight" && config.indexer) {
    const std::int64_t dim = config.indexer->head_dim;
    return joined({in_layer(layer, "indexer.q_proj.weight"), in_layer(layer, "indexer.k_proj.weight")},
                  {shape[0] - dim, dim}, 1, shape[1]);
  }
  std::string tensor = renamed(name);
  if (tensor.empty()) return {};
  if (config_.architecture == Architecture::llama &&
      (rest == "self_attn.q_proj.weight" || rest == "self_attn.k_proj.weight"))
    return by_pairs(tensor, shape);
  return {whole(std::move(tensor), shape)};
}

bool GgufNames::has(std::string_view name) const {
  const auto [layer, rest] = split_layer(name);
  if (rest == kTableName) return checkpoint_.has(kTableTensor);
  if (rest == "mlp.experts.gate_up_proj") {
    return checkpoint_.has(in_layer(layer, "ffn_gate_up_exps.weight")) ||
           checkpoint_.has(in_layer(layer, "ffn_gate_exps.weight"));
  }
  const std::string tensor = renamed(name);
  return !tensor.empty() && checkpoint_.has(tensor);
}

TensorNames GgufNames::as_safetensors() const {
  return {[this](std::string_view name) { return has(name); }, [](std::string_view) { return false; }};
}

void GgufNames::translate(WeightMap& map) const {
  for (WeightSpec& weight : map.weights) {
    std::vector<TensorPart> parts;
    for (TensorPart& part : weight.parts) {
      const auto found = pieces(part.name, part.shape);
      if (found.empty()) parts.push_back(std::move(part));  // reported as missing under its own name
      const std::int64_t end = part.first_file_row + part.rows;
      for (const GgufPiece& piece : found) {
        const std::int64_t first = std::max(part.first_file_row, piece.first_row),
                           last = std::min(end, piece.first_row + piece.rows);
        if (first >= last) continue;
        parts.push_back({piece.tensor, piece.shape, part.first_row + first - part.first_file_row,
                         last - first, piece.first_file_row + (first - piece.first_row) * piece.file_row_step,
                         piece.file_row_step});
      }
    }
    weight.parts = std::move(parts);
  }
  map.hash_buffers.clear();  // metadata here
  map.final_mixer_injects.clear();
}

std::vector<std::string> check_gguf_hash(const GgufModel& model, const ModelConfig& config) {
  std::vector<std::string> problems;
  if (!config.ple) return problems;
  GgufReader reader(model, problems);
  std::map<std::string, std::vector<std::int64_t>> expected;
  const std::string prefix = "qwen4exp.ple.";
  for (std::size_t i = 0; i < config.ple->layers.size(); ++i) {
    const auto constants = derive_ple_constants(*config.ple, config.vocab_size, static_cast<std::int32_t>(i));
    const auto append = [&](const char* key, const std::vector<std::int64_t>& values) {
      auto& all = expected[prefix + key];
      all.insert(all.end(), values.begin(), values.end());
    };
    append("layer_multipliers", constants.multipliers);
    append("head_vocab_sizes", constants.sizes);
    append("head_offsets", constants.offsets);
  }
  for (const auto& [key, values] : expected) {
    reader.require(key);
    const auto found = reader.integers(key);
    if (!reader.has(key) || found == values) continue;
    const auto at = static_cast<std::size_t>(
        std::mismatch(found.begin(), found.end(), values.begin(), values.end()).first - found.begin());
    if (at < found.size() && at < values.size()) {
      reader.problem(key, "holds " + std::to_string(found[at]) + " at " + std::to_string(at) +
                              ", the hash of this model gives " + std::to_string(values[at]));
    } else {
      reader.problem(key, "has " + std::to_string(found.size()) + " numbers, " +
                              std::to_string(values.size()) + " are needed");
    }
  }
  return problems;
}

}  // namespace model
