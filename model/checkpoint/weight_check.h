#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/weight_map.h"

namespace model {

/// What a checkpoint holds beside the model's weights.
struct Leftovers {
  std::vector<std::string> ignored;  ///< one line for each kind that is ignored by name
};

/// Holds the files against the map: every tensor of the map there with its shape and a floating dtype, parts
/// of one weight alike, hash buffers equal to the derivation, and nothing else in the files but what is
/// ignored by name. All problems at once.
Result<Leftovers, LoadError> check_weights(const WeightMap& map, const Checkpoint& checkpoint,
                                           const ModelConfig& config);

/// What the parts of a checked weight are multiplied by; 1 where they are not.
float scale_of(const WeightSpec& weight, const Checkpoint& checkpoint);

}  // namespace model
