#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/batch.h"
#include "model/ids.h"

namespace actors {

/// What the planner has to know of an admitted sequence. Positions count what plans in flight will have done
/// as done.
struct Candidate {
  model::Position fed = 0;  ///< fed tokens, plans in flight included
  std::int32_t prompt_tokens = 0;
  std::int32_t known = 0;              ///< prompt + accepted tokens
  std::int32_t samples_in_flight = 0;  ///< tokens that plans in flight will sample
  std::int32_t samples_allowed =
      0;  ///< that may still be sampled after those: length limit and the window ahead of the sequence actor
  bool prompt_logits = false;  ///< every row of its prompt needs logits
  bool paused = false;
  bool needs_committed = false;  ///< its next sample depends on committed tokens (ban, mask): no row while
                                 ///< one of its own is in flight
};

/// "Feed [first, first + width) of this candidate."
struct PlannedFeed {
  std::size_t candidate = 0;
  kernels::Form form = kernels::Form::decode;
  model::Position first = 0;
  std::int32_t width = 0;
  bool samples = false;  ///< its last row is sampled
  bool from_in_flight =
      false;  ///< the token to feed is the sample of the candidate's row in the plan in flight
};

struct Budget {
  std::int32_t prefill_rows = 0;        ///< the chunk width: max_prefill_tokens floored to the grid
  std::int32_t prompt_logits_rows = 0;  ///< of them, those that may need logits
};

constexpr std::int32_t kChunkGrid = 64;

/// Fed tokens catch up with known tokens: every decoding candidate gets its one row, whatever else happens;
/// the prefill rows go to prompts in the candidates' order (first come first served). A chunk ends on the
/// grid, counted from the sequence start, unless it ends the prompt. Prompt positions are prefill form,
/// generated ones decode form. Prefill feeds come first. Pure.
std::vector<PlannedFeed> plan_step(std::span<const Candidate> candidates, Budget budget);

}  // namespace actors
