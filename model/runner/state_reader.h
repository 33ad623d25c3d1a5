#pragma once

#include <string>
#include <utility>
#include <vector>

#include "gpu/stream.h"
#include "model/cache/kv_layout.h"
#include "model/runner/plan_check.h"

namespace model {

using NamedState = std::vector<std::pair<std::string, std::vector<float>>>;

/// A slot's device state after `fed` positions as host values, independent of where pages and ring rows
/// happen to lie. For tests and canaries.
NamedState read_slot_state(gpu::Stream& stream, const ModelConfig& config, const ServePlan& plan,
                           const std::vector<LayerMemory>& layers, const SlotRecord& record, StateSlot slot,
                           Position fed);

}  // namespace model
