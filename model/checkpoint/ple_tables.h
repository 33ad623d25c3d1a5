#pragma once

#include <vector>

#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/weight_map.h"
#include "model/plan/serve_plan.h"

namespace model {

/// The n-gram tables among the weights of a map, in the order of their layers.
std::vector<const WeightSpec*> ple_tables(const WeightMap& map, const ModelWeights& weights);

/// What the plan asks about the tables of checked files; none without a table. `matrices` as in load_weights.
std::optional<PleTableFacts> ple_table_facts(const WeightMap& map, const ModelWeights& weights,
                                             const Checkpoint& checkpoint,
                                             std::optional<gpu::DType> matrices);

/// Takes the tables out of the map: nothing of them is placed, copied or read. Says in `weights` where their
/// rows lie.
void leave_tables_in_files(WeightMap& map, ModelWeights& weights, const Checkpoint& checkpoint);

}  // namespace model
