#pragma once

#include "model/plan/serve_plan.h"
#include "model/plan/violations.h"

namespace model {

/// Where the memory of the device goes, once all counts of `plan` but pages and snapshots are known. Weights,
/// a step's scratch and the state of all sequences are fixed. What is left is pages for every sequence at its
/// longest, or as many as fit; fewer than one sequence needs is a violation. Rollback points come second: of
/// what one sequence's pages leave they take at most half, unless pages have no use for more.
void derive_memory(const ModelConfig& config, const PlanOptions& options, const gpu::DeviceFacts& facts,
                   ServePlan& plan, Violations& violations);

}  // namespace model
