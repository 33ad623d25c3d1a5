#include "model/plan/fault_drill.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace model {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<FaultOrder> orders_of(std::string_view text) {
  auto orders = parse_fault_orders(text);
  EXPECT_TRUE(orders.ok()) << text << ": " << (orders.ok() ? "" : orders.error().problems.at(0));
  return orders.ok() ? *orders : std::vector<FaultOrder>{};
}
std::vector<std::string> problems_of(std::string_view text) {
  const auto orders = parse_fault_orders(text);
  return orders.ok() ? std::vector<std::string>{} : orders.error().problems;
}
FaultOrder order(FaultKind kind, StepNumber step = 1) {
  FaultOrder made;
  made.kind = kind;
  made.step = step;
  return made;
}

TEST(FaultOrders, ReadKindsAndSteps) {
  EXPECT_THAT(orders_of("sticky@step=3,misaligned@step=next,step_error@step=40,oom"),
              ElementsAre(order(FaultKind::sticky, 3), order(FaultKind::misaligned),
                          order(FaultKind::step_error, 40), order(FaultKind::oom)));
}

TEST(FaultOrders, OneIsAStickyFaultInTheNextStep) {
  EXPECT_THAT(orders_of("1"), ElementsAre(order(FaultKind::sticky)));
  EXPECT_THAT(orders_of("sticky"), ElementsAre(order(FaultKind::sticky)));
  EXPECT_TRUE(orders_of("").empty());
}

TEST(FaultOrders, ReadEveryQualifier) {
  const auto read =
      orders_of("hang@op=gemm@step=2,nan@request=7,slow@ms=250,actor_death@role=request@request=3");
  ASSERT_EQ(read.size(), 4U);
  EXPECT_EQ(read[0].op, "gemm");
  EXPECT_EQ(read[0].step, 2U);
  EXPECT_EQ(read[1].request, SequenceId{7});
  EXPECT_EQ(read[2].time, std::chrono::milliseconds(250));
  EXPECT_EQ(read[3].role, "request");
  EXPECT_EQ(read[3].request, SequenceId{3});
}

/// Which qualifiers apply to which kind; step applies to all.
TEST(FaultOrders, RefuseAQualifierThatDoesNotApplyByName) {
  struct Row {
    const char* kind;
    const char* needs;  ///< said besides, so that the order is whole
    const char* takes;
  };
  const Row rows[] = {{"sticky", "", "op"},
                      {"misaligned", "", "op"},
                      {"step_error", "", "op request"},
                      {"oom", "", "op"},
                      {"nan", "", "request"},
                      {"blaslt_status", "", ""},
                      {"slow", "@ms=5", "op ms"},
                      {"hang", "", "op"},
                      {"actor_death", "@role=sequence", "request role"}};
  for (const Row& row : rows) {
    EXPECT_TRUE(problems_of(std::string(row.kind) + row.needs + "@step=2").empty()) << row.kind;
    for (const std::string name : {"op", "request", "role", "ms"}) {
      const std::string value = name == "op" ? "gemm" : name == "role" ? "sequence" : "5";
      const std::string item = std::string(row.kind) + row.needs + '@' + name + '=' + value;
      const bool takes = std::string(row.takes).find(name) != std::string::npos;
      const auto problems = problems_of(item);
      if (takes) {
        EXPECT_THAT(problems, ElementsAre()) << item;
      } else {
        EXPECT_THAT(problems, ElementsAre(HasSubstr(item + ": " + name + " does not apply to " + row.kind)));
      }
    }
  }
}

TEST(FaultOrders, NameEveryProblemAtOnce) {
  EXPECT_THAT(
      problems_of("stikcy,,sticky@step=0,step_error@step=4x,sticky@op=gem,nan@ms=5,sticky@when=now,slow,"
                  "actor_death,actor_death@role=clerk,actor_death@role=scheduler@request=2,"
                  "step_error@op=gemm@request=2,slow@ms=0,nan@request=x,actor_death@role=request@request=0"),
      testing::UnorderedElementsAreArray<testing::Matcher<std::string>>(
          {HasSubstr("ATLAS_TEST_FAULT stikcy: no such fault; did you mean sticky?"),
           HasSubstr("ATLAS_TEST_FAULT : no such fault"), HasSubstr("sticky@step=0: step has to be"),
           HasSubstr("step_error@step=4x: step has to be"),
           HasSubstr("sticky@op=gem: no operation gem; did you mean gemm?"),
           HasSubstr("nan@ms=5: ms does not apply to nan, which takes step, request"),
           HasSubstr("sticky@when=now: no qualifier \"when=now\""), HasSubstr("slow: slow needs @ms="),
           HasSubstr("actor_death: actor_death needs @role="),
           HasSubstr("role has to be one of health, gpu_stream, scheduler, encoder, request, sequence"),
           HasSubstr("request does not apply to role scheduler"),
           HasSubstr("op and request do not go together"), HasSubstr("slow@ms=0: ms has to be"),
           HasSubstr("nan@request=x: request has to be"), HasSubstr("request 0 is the health canary")}));
}

TEST(FaultOrders, AreNotSaidTwice) {
  EXPECT_THAT(problems_of("sticky@step=2,nan@step=2,sticky@step=2"),
              ElementsAre("ATLAS_TEST_FAULT sticky@step=2: said twice"));
  EXPECT_TRUE(problems_of("nan@request=2,nan@request=3").empty());
}

/// Every kind of the grammar is known by name: none is taken for a typing error, with its qualifiers.
TEST(FaultOrders, KindsOfOtherBuildsAreRefusedByName) {
  for (const std::string kind : {"verify_error", "snapshot_fail"}) {
    for (const std::string rest : {"", "@step=2", "@request=3"}) {
      EXPECT_THAT(problems_of(kind + rest),
                  ElementsAre(HasSubstr("this build does not inject it, only sticky")))
          << kind;
    }
  }
}

TEST(FaultOrders, TheHelpNamesEveryKindWithWhatItTakes) {
  const std::string help = fault_help();
  for (const char* part : {"ATLAS_TEST_FAULT=", "sticky ", "misaligned ", "step_error ", "step, op, request",
                           "oom ", "nan ", "blaslt_status ", "slow ", "step, op, ms", "hang ", "actor_death ",
                           "step, request, role", "(not in this build)", "roles: health", "moe_experts"}) {
    EXPECT_THAT(help, HasSubstr(part));
  }
}

}  // namespace
}  // namespace model
