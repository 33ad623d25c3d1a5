#include "model/arch/model_config.h"
#include "tests/fuzz/target.h"

/// config.json, and after a zero byte generation_config.json.
void fuzz(std::string_view input) {
  const auto config = model::parse_model_config(fuzzing::take_part(input), "config");
  if (config.ok()) {
    fuzzing::require(config->vocab_size > 0 && config->hidden_size > 0 && !config->layers.empty());
    fuzzing::require(config->num_heads % config->num_kv_heads == 0);
    const model::RopeTable table = model::make_rope_table(config->rope);
    fuzzing::require(static_cast<std::int64_t>(table.inv_freq.size()) == config->rope.rotary_dim / 2);
  } else {
    fuzzing::require(!config.error().problems.empty());
  }
  (void)model::parse_generation_config(input, "generation config");
}
