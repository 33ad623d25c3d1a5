#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "model/plan/fault_drill.h"
#include "model/runner/step_plan.h"

namespace actors {

/// Runs the steps of another executor and makes those that were ordered suffer their fault. Plans are counted
/// from 1 after the warm-up (plan 0). Called as its executor is.
class DrilledExecutor final : public model::StepExecutor {
 public:
  /// `inject` makes the executor's next step begin with the fault.
  DrilledExecutor(std::unique_ptr<model::StepExecutor> executor, std::vector<model::FaultOrder> orders,
                  std::function<void(gpu::InjectedFault)> inject)
      : executor_(std::move(executor)), orders_(std::move(orders)), inject_(std::move(inject)) {}

  model::Result<model::StepResult, model::FatalError> step(const model::StepPlan& plan) override {
    if (plan.number != 0) {
      ++step_;
      for (const model::FaultOrder& order : orders_)
        if (order.step == step_) inject_(order.fault);
    }
    return executor_->step(plan);
  }
  std::uint64_t progress() const override { return executor_->progress(); }

 private:
  std::unique_ptr<model::StepExecutor> executor_;
  std::vector<model::FaultOrder> orders_;
  std::function<void(gpu::InjectedFault)> inject_;
  model::StepNumber step_ = 0;  ///< plans executed since the warm-up
};

}  // namespace actors
