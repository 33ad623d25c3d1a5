#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model/runner/runner.h"

namespace bench {

/// Seconds of one step; of a prompt, the sum over its steps.
struct StepTime {
  double wall = 0.0;
  double cpu = 0.0;  ///< of all threads
  std::uint64_t row_hits = 0, row_misses = 0;  ///< n-gram rows of tables that stay in their files
  double row_wait = 0.0;                       ///< of `wall`, for such rows
};

[[noreturn]] void fail(const std::vector<std::string>& problems);

std::vector<model::TokenId> some_tokens(std::int32_t n, std::int32_t vocab);

/// Drives sequences on slots 0 … n-1, each with pages of its own, straight on a Runner: no actors, no HTTP.
class Driver {
 public:
  Driver(model::Runner& runner, const model::ServePlan& plan);

  /// `num_sequences` begin anew.
  void reset(std::int32_t num_sequences);
  StepTime prefill(std::int32_t slot, const std::vector<model::TokenId>& ids);
  /// One token for each of the first `batch` sequences.
  StepTime decode(std::int32_t batch);
  /// The same, of these tokens.
  StepTime decode(const std::vector<model::TokenId>& tokens);

 private:
  model::StepPlan next_plan();
  model::Feed feed(std::int32_t slot, model::Form form, std::vector<model::TokenId> ids);
  void with_logits(model::Feed& feed);
  StepTime run(const model::StepPlan& plan);

  model::Runner& runner_;
  const model::ServePlan& plan_;
  std::shared_ptr<model::SamplingParams> sampling_;
  std::vector<std::int32_t> fed_, pages_, resets_;
  model::StepNumber number_ = 0;
};

}  // namespace bench
