#pragma once

#include <string_view>
#include <vector>

#include "gpu/stream.h"
#include "model/errors.h"
#include "model/ids.h"

namespace model {

/// A step that is to fail on purpose, so that an operator (or a test) sees what the process makes of it.
struct FaultOrder {
  gpu::InjectedFault fault = gpu::InjectedFault::refused_launch;
  StepNumber step = 1;  ///< the N-th plan executed since ready

  friend bool operator==(const FaultOrder&, const FaultOrder&) = default;
};

/// Reads `<kind>[@step=N|next][,…]`; "1" is a sticky fault in the next step, "" no order at all. Every
/// problem at once: unknown kinds, and those of the grammar that this build cannot inject, by name. Pure.
Result<std::vector<FaultOrder>, LoadError> parse_fault_orders(std::string_view text);

}  // namespace model
