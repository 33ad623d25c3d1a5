#include "model/arch/model_config.h"

#include <array>

#include "model/arch/family_config.h"

namespace model {
namespace {

struct FamilyReader {
  std::string_view type;
  std::string_view text_type;  ///< the type inside text_config; empty: always flat
  void (*read)(ConfigReader& reader, ModelConfig& config);
};
constexpr std::array kFamilies{
    FamilyReader{"llama", "", read_llama},
    FamilyReader{"qwen3", "", read_qwen3},
    FamilyReader{"qwen3_moe", "", read_qwen3_moe},
    FamilyReader{"qwen3_next", "", read_qwen3_next},
    FamilyReader{"qwen3_5", "qwen3_5_text", read_qwen3_5},
    FamilyReader{"qwen3_5_moe", "qwen3_5_moe_text", read_qwen3_5_moe},
    FamilyReader{"qwen4_exp", "qwen4_exp_text", read_qwen4_exp},
};

const FamilyReader* find_family(std::string_view type) {
  for (const FamilyReader& family : kFamilies)
    if (type == family.type || (!family.text_type.empty() && type == family.text_type)) return &family;
  return nullptr;
}

/// "a, b and c"
std::string family_names() {
  std::string names;
  for (std::size_t i = 0; i < kFamilies.size(); ++i) {
    if (i > 0) names += i + 1 < kFamilies.size() ? ", " : " and ";
    names += kFamilies[i].type;
  }
  return names;
}

void refuse_quantized(ConfigReader& reader) {
  if (reader.has("quantization_config")) {
    reader.problem("quantization_config", "is present: quantised checkpoints are not supported");
  }
}

/// Keys that mean the same at the top and in text_config: the inner one counts, but a contradiction is
/// nobody's guess.
void inherit(ConfigReader& root, ConfigReader& text, ModelConfig& config) {
  if (root.has("tie_word_embeddings")) {
    const bool outer = root.boolean("tie_word_embeddings", false);
    if (text.has("tie_word_embeddings") && outer != config.tied_embeddings) {
      root.problem("tie_word_embeddings", "contradicts text_config.tie_word_embeddings");
    }
    config.tied_embeddings = outer;
  }
  if (!text.has("bos_token_id") && root.has("bos_token_id")) {
    config.bos = root.integer("bos_token_id", limits::kToken);
  }
  if (!text.has("eos_token_id")) config.eos = root.integers("eos_token_id", limits::kToken);
}

void read_family(ConfigReader& root, ModelConfig& config) {
  const auto type = root.text("model_type");
  if (!type) {
    if (!root.has("model_type")) root.problem("model_type", "is missing");
    return;
  }
  config.model_type = *type;
  refuse_quantized(root);
  const FamilyReader* family = find_family(*type);
  if (family == nullptr) {
    root.problem("model_type", "is \"" + std::string(*type) + "\"; supported are " + family_names());
    return;
  }
  if (family->text_type.empty() || !root.has("text_config")) return family->read(root, config);
  auto text = root.object("text_config");
  if (!text) return;
  const auto inner_type = text->text("model_type").value_or(*type);
  if (find_family(inner_type) != family) {
    text->problem("model_type", "is \"" + std::string(inner_type) + "\"; " + std::string(family->text_type) +
                                    " was expected");
    return;
  }
  refuse_quantized(*text);
  family->read(*text, config);
  inherit(root, *text, config);
}

}  // namespace

Result<ModelConfig, LoadError> parse_model_config(std::string_view json, std::string_view file) {
  LoadError error;
  ModelConfig config;
  simdjson::dom::parser parser;
  if (const auto object = parse_object(parser, json, file, error.problems)) {
    ConfigReader root(file, "", *object, error.problems);
    read_family(root, config);
  }
  if (!error.problems.empty()) return error;
  return config;
}

}  // namespace model
