#include "model/plan/fault_drill.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace model {
namespace {

using gpu::InjectedFault;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(FaultOrders, ReadKindsAndSteps) {
  const auto orders = parse_fault_orders("sticky@step=3,misaligned@step=next,step_error@step=40");
  ASSERT_TRUE(orders.ok()) << orders.error().problems.at(0);
  EXPECT_THAT(*orders, ElementsAre(FaultOrder{InjectedFault::illegal_address, 3},
                                   FaultOrder{InjectedFault::misaligned_address, 1},
                                   FaultOrder{InjectedFault::refused_launch, 40}));
}

TEST(FaultOrders, OneIsAStickyFaultInTheNextStep) {
  EXPECT_THAT(*parse_fault_orders("1"), ElementsAre(FaultOrder{InjectedFault::illegal_address, 1}));
  EXPECT_THAT(*parse_fault_orders("sticky"), ElementsAre(FaultOrder{InjectedFault::illegal_address, 1}));
  EXPECT_TRUE(parse_fault_orders("")->empty());
}

TEST(FaultOrders, NameEveryProblemAtOnce) {
  const auto orders = parse_fault_orders(
      "stikcy,hang@step=2,,sticky@step=0,step_error@step=4x,sticky@op=gemm,nan@ms=5,sticky@when=now");
  ASSERT_FALSE(orders.ok());
  EXPECT_THAT(
      orders.error().problems,
      testing::UnorderedElementsAreArray<testing::Matcher<std::string>>(
          {HasSubstr("stikcy: no such fault; did you mean sticky?"),
           HasSubstr("hang@step=2: this build does not inject it, only sticky, misaligned, step_error"),
           HasSubstr("ATLAS_TEST_FAULT : no such fault"), HasSubstr("sticky@step=0: step has to be"),
           HasSubstr("step_error@step=4x: step has to be"),
           HasSubstr("sticky@op=gemm: op is not read by this build"),
           HasSubstr("nan@ms=5: this build does not inject it"), HasSubstr("nan@ms=5: ms is not read"),
           HasSubstr("\"when=now\" has to be step=N or step=next")}));
}

TEST(FaultOrders, GiveAStepOneFault) {
  const auto orders = parse_fault_orders("sticky@step=2,step_error@step=2");
  ASSERT_FALSE(orders.ok());
  EXPECT_THAT(orders.error().problems,
              ElementsAre("ATLAS_TEST_FAULT step_error@step=2: step 2 has a fault already"));
}

/// Every kind of the grammar is known by name: none is taken for a typing error.
TEST(FaultOrders, KnowEveryKindOfTheGrammar) {
  for (const char* kind : {"verify_error", "blaslt_status", "oom", "hang", "slow", "nan", "row_read_error",
                           "snapshot_fail", "actor_death"}) {
    const auto orders = parse_fault_orders(kind);
    ASSERT_FALSE(orders.ok()) << kind;
    EXPECT_THAT(orders.error().problems, ElementsAre(HasSubstr("this build does not inject it"))) << kind;
  }
}

}  // namespace
}  // namespace model
