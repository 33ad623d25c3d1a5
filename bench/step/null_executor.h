#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

#include "model/runner/step_plan.h"

namespace bench {

/// What the process had used when a step began.
struct Reading {
  std::chrono::steady_clock::time_point at;
  double cpu_seconds = 0.0;  ///< user and system, of all threads
};
Reading read_process();

struct NullRun {
  std::chrono::nanoseconds step{0};
  std::int32_t streams = 1;
  std::int32_t warm_steps = 0;  ///< full steps before the window
  std::int32_t steps = 0;       ///< full steps inside it
  std::vector<model::TokenId> vocabulary;
};

/// In the Runner's place: a step takes its time asleep and every sampled row gives the next token of a list.
/// The window opens when a step has been full (one decode row a stream) `warm_steps` times, and closes
/// `steps` later.
class NullExecutor final : public model::StepExecutor {
 public:
  NullExecutor(NullRun run, std::function<void(Reading)> opened, std::function<void(Reading)> closed);

  model::Result<model::StepResult, model::FatalError> step(const model::StepPlan& plan) override;
  std::uint64_t progress() const override { return progress_.load(std::memory_order_relaxed); }

 private:
  void watch_window(const model::StepPlan& plan);

  NullRun run_;
  std::function<void(Reading)> opened_;
  std::function<void(Reading)> closed_;
  std::int32_t full_steps_ = 0;
  std::atomic<std::uint64_t> progress_{0};
};

}  // namespace bench
