#include <algorithm>
#include <numeric>

#include "model/arch/family_config.h"

namespace model {
namespace {

void read_llama3_scaling(ConfigReader& scaling, RopeConfig& rope) {
  rope.type = RopeConfig::Type::llama3;
  rope.factor = scaling.number("factor", {1.0, 1e6});
  rope.low_freq_factor = scaling.number("low_freq_factor", {1e-6, 1e6});
  rope.high_freq_factor = scaling.number("high_freq_factor", {1e-6, 1e6});
  rope.original_max_positions = scaling.integer("original_max_position_embeddings", limits::kPositions);
  scaling.require({"high_freq_factor", "low_freq_factor"}, rope.high_freq_factor > rope.low_freq_factor,
                  "must be above low_freq_factor");
}

void read_yarn_scaling(ConfigReader& scaling, std::int32_t max_positions, RopeConfig& rope) {
  rope.type = RopeConfig::Type::yarn;
  rope.original_max_positions =
      scaling.integer("original_max_position_embeddings", limits::kPositions, max_positions);
  rope.factor = scaling.number("factor", {1.0, 1e6});
  rope.beta_fast = scaling.number("beta_fast", {1e-6, 1e6}, 32.0);
  rope.beta_slow = scaling.number("beta_slow", {1e-6, 1e6}, 1.0);
  rope.attention_factor = scaling.number("attention_factor", {1e-6, 1e6}, 0.0);
  rope.mscale = scaling.number("mscale", {0.0, 1e6}, 0.0);
  rope.mscale_all_dim = scaling.number("mscale_all_dim", {0.0, 1e6}, 0.0);
  if (!scaling.boolean("truncate", true)) scaling.problem("truncate", "is false, which is not supported");
}

/// Sections of the rotary pairs for time, height and width. A text token stands at the same place on all
/// three, so they decide nothing here; but they must be those of this model.
void check_mrope(ConfigReader& settings, std::int32_t rotary_dim) {
  if (!settings.has("mrope_section") || rotary_dim % 2 != 0) return;
  const auto sections = settings.integers("mrope_section", {0, limits::kHeadDim.max});
  const auto sum = std::accumulate(sections.begin(), sections.end(), std::int64_t{0});
  settings.require({"mrope_section"}, sections.size() == 3 && sum == rotary_dim / 2,
                   "has " + std::to_string(sections.size()) + " entries that add up to " +
                       std::to_string(sum) + "; three that add up to " + std::to_string(rotary_dim / 2) +
                       " rotary pairs are needed");
}

/// The scaling of the frequencies, where the settings name one.
void read_scaling(ConfigReader& settings, ModelConfig& config) {
  const char* key = settings.has("rope_type") ? "rope_type" : "type";
  const auto type = settings.text(key).value_or("default");
  if (type == "default" || type == "mrope") return;
  if (type == "llama3") {
    read_llama3_scaling(settings, config.rope);
  } else if (type == "yarn") {
    read_yarn_scaling(settings, config.max_positions, config.rope);
    const double stretched = config.rope.original_max_positions * config.rope.factor;
    const double most = std::min(stretched, static_cast<double>(limits::kPositions.max));
    config.max_positions = std::max(config.max_positions, static_cast<std::int32_t>(most));
  } else {
    settings.problem(key, "is \"" + std::string(type) + "\"; supported are default, llama3 and yarn");
  }
}

}  // namespace

void read_rope(ConfigReader& reader, ModelConfig& config, std::optional<double> default_theta,
               double default_rotary_factor) {
  RopeConfig& rope = config.rope;
  auto parameters = reader.object("rope_parameters");
  auto scaling = reader.object("rope_scaling");
  if (parameters && scaling) reader.problem("rope_scaling", "is given beside rope_parameters; one must go");
  ConfigReader& settings = parameters ? *parameters : scaling ? *scaling : reader;

  const NumberRange theta_range{2.0, 1e12};
  rope.theta = settings.has("rope_theta") ? settings.number("rope_theta", theta_range)
                                          : reader.number("rope_theta", theta_range, default_theta);

  const NumberRange factor_range{1e-3, 1.0};
  const double outer_factor = reader.number("partial_rotary_factor", factor_range, default_rotary_factor);
  const double rotary_factor = settings.number("partial_rotary_factor", factor_range, outer_factor);
  // The reference writes its default beside whatever rope_parameters says, which counts.
  if (reader.has("partial_rotary_factor") && outer_factor != default_rotary_factor &&
      outer_factor != rotary_factor) {
    reader.problem("partial_rotary_factor", "contradicts the one in rope_parameters");
  }
  rope.rotary_dim = static_cast<std::int32_t>(config.head_dim * rotary_factor);
  reader.require({"partial_rotary_factor", "head_dim"}, rope.rotary_dim >= 2 && rope.rotary_dim % 2 == 0,
                 "times head_dim gives " + std::to_string(rope.rotary_dim) +
                     " rotary dimensions; an even number of at least 2 is needed");
  if (!parameters && !scaling) return;
  check_mrope(settings, rope.rotary_dim);
  read_scaling(settings, config);
}

}  // namespace model
