#pragma once

#include "model/plan/serve_plan.h"
#include "model/plan/violations.h"

namespace model {

/// Decides where n-gram tables lie, once everything else that the device has to hold for one sequence is
/// known. `left`: bytes that remain when that and the tables are there; less than none: they do not fit.
/// Tables that stay in their files leave `plan.weight_bytes`.
void place_tables(const ModelConfig& config, const PlanOptions& options, gpu::Backend backend,
                  std::int64_t left, ServePlan& plan, Violations& violations);

}  // namespace model
