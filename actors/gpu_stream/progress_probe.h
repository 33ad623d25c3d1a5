#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "model/runner/step_plan.h"

namespace actors {

/// What the health actor can see of the device's thread while that thread is inside a step. Written by the
/// GPU-stream actor, read by the health actor.
class ProgressProbe {
 public:
  struct Reading {
    bool plan_in_flight = false;
    std::uint64_t plans_done = 0;
    std::uint64_t progress = 0;
  };
  Reading read() const {
    const std::lock_guard lock(mutex_);
    return {in_flight_.load(), done_.load(), executor_ == nullptr ? 0 : executor_->progress()};
  }

  /// From `attach` to `detach` the executor lives; the lock is never held during a step.
  void attach(const model::StepExecutor* executor) {
    const std::lock_guard lock(mutex_);
    executor_ = executor;
  }
  void detach() { attach(nullptr); }
  void plan_started() { in_flight_ = true; }
  void plan_done() {
    ++done_;
    in_flight_ = false;
  }

 private:
  mutable std::mutex mutex_;
  const model::StepExecutor* executor_ = nullptr;
  std::atomic<bool> in_flight_{false};
  std::atomic<std::uint64_t> done_{0};
};

}  // namespace actors
