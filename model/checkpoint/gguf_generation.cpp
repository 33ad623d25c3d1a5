#include "model/checkpoint/config_writer.h"
#include "model/checkpoint/gguf_config.h"
#include "model/checkpoint/gguf_reader.h"

namespace model {

Result<GenerationDefaults, LoadError> read_gguf_generation(const GgufModel& model) {
  LoadError error;
  GgufReader reader(model, error.problems);
  ConfigWriter out;
  const auto copy = [&](const char* to, const std::string& key) {
    if (const auto value = reader.number(key)) out.number(to, *value, key);
  };
  copy("temperature", "general.sampling.temp");
  copy("top_p", "general.sampling.top_p");
  copy("min_p", "general.sampling.min_p");
  copy("repetition_penalty", "general.sampling.penalty_repeat");
  if (const auto top_k = reader.integer("general.sampling.top_k", IntegerRange{0, 1 << 24}))
    out.integer("top_k", *top_k, "general.sampling.top_k");
  if (error.problems.empty()) {
    auto defaults = parse_generation_config(out.json(), model.name());
    if (defaults.ok()) return defaults;
    for (std::string& problem : defaults.error().problems)
      error.problems.push_back(out.translated(std::move(problem), model.name()));
  }
  return error;
}

}  // namespace model
