#include "model/arch/model_config.h"

#include "model/arch/family_config.h"

namespace model {
namespace {

bool is_qwen4_exp(std::string_view type) { return type == "qwen4_exp" || type == "qwen4_exp_text"; }

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
}

void read_family(ConfigReader& root, ModelConfig& config) {
  const auto type = root.text("model_type");
  if (!type) {
    if (!root.has("model_type")) root.problem("model_type", "is missing");
    return;
  }
  config.model_type = *type;
  if (root.has("quantization_config")) {
    root.problem("quantization_config", "is present: quantised checkpoints are not supported");
  }
  if (*type == "llama") return read_llama(root, config);
  if (!is_qwen4_exp(*type)) {
    root.problem("model_type", "is \"" + std::string(*type) + "\"; supported are qwen4_exp and llama");
    return;
  }
  auto text = root.object("text_config");
  if (!text) {
    if (!root.has("text_config")) read_qwen4_exp(root, config);
    return;
  }
  const auto inner_type = text->text("model_type").value_or(*type);
  if (!is_qwen4_exp(inner_type)) {
    text->problem("model_type", "is \"" + std::string(inner_type) + "\"; qwen4_exp_text was expected");
    return;
  }
  if (text->has("quantization_config")) {
    text->problem("quantization_config", "is present: quantised checkpoints are not supported");
  }
  read_qwen4_exp(*text, config);
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
