#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/runner/step_buffers.h"
#include "model/runner/step_plan.h"

namespace model {

/// What the Runner knows of a state slot. Empty → (reset) Live → Broken → (reset) Live: a slot whose device
/// state cannot be trusted is never fed again before it begins a new sequence.
struct SlotRecord {
  enum class Status { empty, live, broken } status = Status::empty;
  Position fed = 0;
  std::vector<PageId> pages;
  bool in_step = false;  ///< has a feed in the step that is being put together

  void begin_sequence() {
    status = Status::live;
    fed = 0;
    pages.clear();
  }
};

/// What the accepted feeds of a step take together.
struct StepTotals {
  std::int32_t prefill_rows = 0, decode_rows = 0, logits_rows = 0;
};

/// Why this feed cannot run, or nothing. Pure. Everything that a feed could break is found here, before
/// anything is enqueued, so that a refused feed leaves its slot, and every other feed, as they were. `slots`
/// are the state after the plan's resets.
std::optional<StepError> check_feed(const Feed& feed, const StepPlan& plan,
                                    const std::vector<SlotRecord>& slots, const StepTotals& totals,
                                    const ServePlan& limits);

/// Rows before the first decode-form row: prefill rows are filled up to the grid.
constexpr std::int32_t first_decode_row(std::int32_t prefill_rows) { return (prefill_rows + 63) / 64 * 64; }

}  // namespace model
