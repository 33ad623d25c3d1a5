#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "model/arch/known_answer.h"
#include "model/plan/serve_plan.h"
#include "model/runner/step_plan.h"

namespace actors {

/// A fixed prompt and how it is answered to find out whether the engine computes what it should: greedily,
/// once in chunks as wide as can be and once cut in two. It is nobody's request.
struct Canary {
  std::vector<model::TokenId> prompt;
  std::int32_t num_tokens = 1;
  std::vector<model::TokenId> expected;  ///< shipped with the model; empty: none are known
  std::int32_t chunk_width = 64;
  std::int32_t block_size = 16;

  std::int32_t num_pages() const {
    const auto fed = static_cast<std::int32_t>(prompt.size()) + num_tokens - 1;
    return (fed + block_size - 1) / block_size;
  }
};

/// What fits the plan; `known` is taken where it does.
Canary derive_canary(const model::ServePlan& plan, const std::optional<model::KnownAnswer>& known);
/// Positions that it takes: more than max_seq_len has no room for.
std::int32_t positions_of(const model::KnownAnswer& known);

/// The device things that it may use.
struct CanaryPlace {
  model::StateSlot slot = 0;
  std::vector<model::PageId> pages;
};

struct CanaryWrong {
  std::string what;
};
using CanaryOutcome = std::variant<std::vector<model::TokenId>, CanaryWrong, model::FatalError>;

using Execute = std::function<model::Result<model::StepResult, model::FatalError>(const model::StepPlan&)>;
/// Its tokens, when both ways of cutting the prompt gave the same, from finite logits, and they are those
/// expected. Plans carry `number`.
CanaryOutcome run_canary(const Canary& canary, const CanaryPlace& place, model::StepNumber number,
                         const Execute& execute);

}  // namespace actors
