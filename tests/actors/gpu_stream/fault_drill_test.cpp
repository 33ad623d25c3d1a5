#include "actors/gpu_stream/fault_drill.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace actors {
namespace {

using gpu::InjectedFault;
using testing::ElementsAre;

/// Notes the order of faults and steps.
struct Journal {
  std::vector<std::string> lines;
};
class NotingExecutor final : public model::StepExecutor {
 public:
  explicit NotingExecutor(Journal& journal) : journal_(journal) {}
  model::Result<model::StepResult, model::FatalError> step(const model::StepPlan& plan) override {
    journal_.lines.push_back("plan " + std::to_string(plan.number));
    return model::StepResult{plan.number, {}, {}};
  }
  std::uint64_t progress() const override { return 7; }

 private:
  Journal& journal_;
};

TEST(DrilledExecutor, InjectsBeforeTheStepThatWasNamedCountedFromAfterTheWarmUp) {
  Journal journal;
  DrilledExecutor executor(
      std::make_unique<NotingExecutor>(journal),
      {{InjectedFault::illegal_address, 3}, {InjectedFault::refused_launch, 1}},
      [&journal](InjectedFault fault) {
        journal.lines.push_back(fault == InjectedFault::refused_launch ? "refused" : "illegal");
      });
  for (const model::StepNumber number : {0, 11, 12, 13, 14}) {
    model::StepPlan plan;
    plan.number = number;
    ASSERT_TRUE(executor.step(plan).ok());
  }
  EXPECT_THAT(journal.lines,
              ElementsAre("plan 0", "refused", "plan 11", "plan 12", "illegal", "plan 13", "plan 14"));
  EXPECT_EQ(executor.progress(), 7U);
}

}  // namespace
}  // namespace actors
