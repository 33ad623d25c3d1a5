#include "model/arch/family_config.h"

namespace model {
namespace {

std::optional<float> optional_number(ConfigReader& reader, std::string_view key, NumberRange range) {
  if (!reader.has(key)) return std::nullopt;
  return static_cast<float>(reader.number(key, range));
}

}  // namespace

/// max_new_tokens and max_length are not read: files carry a leftover of some experiment there, and a server
/// that obeys it cuts answers short.
Result<GenerationDefaults, LoadError> parse_generation_config(std::string_view json, std::string_view file) {
  LoadError error;
  GenerationDefaults defaults;
  simdjson::dom::parser parser;
  if (const auto object = parse_object(parser, json, file, error.problems)) {
    ConfigReader reader(file, "", *object, error.problems);
    defaults.eos = reader.integers("eos_token_id", limits::kToken);
    if (reader.has("do_sample")) defaults.do_sample = reader.boolean("do_sample", false);
    defaults.temperature = optional_number(reader, "temperature", {0.0, 100.0});
    defaults.top_p = optional_number(reader, "top_p", {0.0, 1.0});
    defaults.min_p = optional_number(reader, "min_p", {0.0, 1.0});
    defaults.repetition_penalty = optional_number(reader, "repetition_penalty", {1e-3, 100.0});
    if (reader.has("top_k")) defaults.top_k = reader.integer("top_k", {-1, 1 << 24});
  }
  if (!error.problems.empty()) return error;
  return defaults;
}

}  // namespace model
