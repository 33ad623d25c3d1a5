#include "actors/scheduler/step_planner.h"

#include <algorithm>

namespace actors {
namespace {

using kernels::Form;

/// Rows of a prompt's next chunk; 0 when what is left of the budget ends neither on the grid nor the prompt.
std::int32_t chunk_width(const Candidate& candidate, std::int32_t rows_left) {
  const auto rest = candidate.prompt_tokens - candidate.fed;
  if (rest <= rows_left) return rest;
  return rows_left / kChunkGrid * kChunkGrid;
}

bool has_row_to_feed(const Candidate& c) {
  if (c.samples_allowed <= 0 || c.fed >= c.known + c.samples_in_flight) return false;
  return c.fed < c.known || !c.needs_committed;
}

}  // namespace

std::vector<PlannedFeed> plan_step(std::span<const Candidate> candidates, Budget budget) {
  std::vector<PlannedFeed> feeds;
  feeds.reserve(candidates.size());
  auto rows_left = budget.prefill_rows;
  auto logits_left = budget.prompt_logits_rows;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const auto& c = candidates[i];
    if (c.paused || c.fed >= c.prompt_tokens) continue;
    const auto width = chunk_width(c, c.prompt_logits ? std::min(rows_left, logits_left) : rows_left);
    if (width == 0) continue;
    if (c.prompt_logits) logits_left -= width;
    feeds.push_back({i, Form::prefill, c.fed, width, c.fed + width == c.prompt_tokens, false});
    rows_left -= width;
  }
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const auto& c = candidates[i];
    if (c.paused || c.fed < c.prompt_tokens || !has_row_to_feed(c)) continue;
    feeds.push_back({i, Form::decode, c.fed, 1, true, c.fed >= c.known});
  }
  return feeds;
}

}  // namespace actors
