#include "model/runner/step_drill.h"

#include <gmock/gmock.h>

#include "kernels/hooked_ops.h"
#include "model_rig.h"

namespace model {
namespace {

using testing::fixture;
using ::testing::HasSubstr;
using testing::ModelRig;
using testing::RigOptions;

/// A rig whose steps meet `orders`, wired as a server's.
struct DrilledRig {
  explicit DrilledRig(std::string_view orders) : drill(*parse_fault_orders(orders)), rig(make()) {
    rig.runner->set_drill(&drill);
  }
  ModelRig make() {
    RigOptions options;
    options.max_batch_size = 4;
    options.max_prefill_tokens = 128;
    options.max_seq_len = 256;
    options.backend = [this] {
      testing::RigBackend host;
      host.device = gpu::make_host_device(2);
      host.stream = *host.device->create_stream();
      host.ops = std::make_unique<kernels::HookedOps>(
          kernels::make_cpu_ops([this](const std::string& line) { warnings.push_back(line); }),
          [this](gpu::Stream& stream, std::string_view op) {
            ops_seen.emplace_back(op);
            return drill.before_op(stream, op);
          });
      return host;
    };
    return {fixture("tiny-qwen4_exp"), options};
  }
  StepDrill drill;
  std::vector<std::string> warnings, ops_seen;
  ModelRig rig;
};

std::vector<TokenId> ids(std::int32_t count, std::int32_t first = 0) {
  std::vector<TokenId> made;
  for (std::int32_t i = 0; i < count; ++i) made.push_back((first + i * 13) % 250);
  return made;
}
std::string error_of(const FeedOutcome& outcome) {
  return outcome.done.ok() ? "" : outcome.done.error().what;
}

/// Both sequences' prompts in one step, then five steps of one token each; an ended one is not fed again.
struct Course {
  std::vector<TokenId> tokens[2];
  std::string error[2];
  int failed_at[2] = {-1, -1};
};
Course run_two(ModelRig& rig) {
  Course course;
  const std::vector<TokenId> prompts[2] = {ids(20), ids(30, 5)};
  for (int step = 0; step < 6; ++step) {
    std::vector<Feed> feeds;
    std::vector<StateSlot> resets;
    std::vector<int> who;
    for (int s = 0; s < 2; ++s) {
      if (course.failed_at[s] >= 0) continue;
      const auto length = static_cast<std::int32_t>(prompts[s].size());
      if (step == 0) {
        resets.push_back(rig.begin(s));
        feeds.push_back(rig.feed(s, Form::prefill, 0, prompts[s], length - 1));
      } else {
        feeds.push_back(rig.feed(s, Form::decode, length + step - 1, {course.tokens[s].back()}, 0));
      }
      who.push_back(s);
    }
    const StepResult result = rig.step(std::move(feeds), std::move(resets));
    for (std::size_t i = 0; i < who.size(); ++i) {
      const int s = who[i];
      const auto& outcome = result.outcomes.at(i);
      if (outcome.done.ok()) {
        course.tokens[s].push_back(outcome.done->sampled.at(0).token);
      } else {
        course.error[s] = outcome.done.error().what;
        course.failed_at[s] = step;
      }
    }
  }
  return course;
}

TEST(StepDrill, AFaultThatNamesAChoiceLeavesTheOthersBitsAlone) {
  DrilledRig calm("");
  const Course want = run_two(calm.rig);
  ASSERT_EQ(want.tokens[0].size(), 6U);
  struct Row {
    const char* orders;
    int failed_at;
    const char* says;
  };
  for (const Row& row : {Row{"nan@request=2", 0, "logits are not finite"},
                         Row{"nan@request=2@step=4", 3, "logits are not finite"},
                         Row{"step_error@request=2", 0, "choice 2 is refused"},
                         Row{"step_error@request=2@step=3", 2, "choice 2 is refused"}}) {
    SCOPED_TRACE(row.orders);
    DrilledRig drilled(row.orders);
    const Course got = run_two(drilled.rig);
    EXPECT_EQ(got.tokens[0], want.tokens[0]);
    EXPECT_EQ(got.failed_at[0], -1);
    EXPECT_EQ(got.failed_at[1], row.failed_at);
    EXPECT_THAT(got.error[1], HasSubstr(row.says));
    const auto told = std::min(want.tokens[1].size(), static_cast<std::size_t>(row.failed_at));
    EXPECT_EQ(got.tokens[1],
              std::vector<TokenId>(want.tokens[1].begin(),
                                   want.tokens[1].begin() + static_cast<std::ptrdiff_t>(told)));
    EXPECT_EQ(run_two(drilled.rig).tokens[1], want.tokens[1]);  // the slot is whole again after its reset
  }
}

TEST(StepDrill, AFaultThatNamesNobodyIsTheWholeStepsAndNotTheNext) {
  DrilledRig calm("");
  const Course want = run_two(calm.rig);
  for (const char* orders : {"step_error@step=3", "oom@step=3", "nan@step=3", "step_error@op=sample@step=3",
                             "oom@op=moe_experts@step=3"}) {
    SCOPED_TRACE(orders);
    DrilledRig drilled(orders);
    const Course got = run_two(drilled.rig);
    for (int s = 0; s < 2; ++s) {
      EXPECT_EQ(got.failed_at[s], 2);
      EXPECT_NE(got.error[s], "");
    }
    // A slot whose step failed is not fed before it begins anew.
    EXPECT_THAT(error_of(drilled.rig.step({drilled.rig.feed(0, Form::decode, 22, {1}, 0)}).outcomes.at(0)),
                HasSubstr("broken"));
    const Course again = run_two(drilled.rig);
    EXPECT_EQ(again.tokens[0], want.tokens[0]);
    EXPECT_EQ(again.tokens[1], want.tokens[1]);
  }
}

TEST(StepDrill, ALostDeviceIsFatalForEver) {
  for (const char* orders : {"sticky", "misaligned", "sticky@op=attention"}) {
    DrilledRig drilled(orders);
    StepPlan plan;
    plan.number = 1;
    plan.resets = {drilled.rig.begin(0)};
    plan.feeds = {drilled.rig.feed(0, Form::prefill, 0, ids(20), 19)};
    const auto lost = drilled.rig.runner->step(plan);
    ASSERT_FALSE(lost.ok()) << orders;
    EXPECT_THAT(lost.error().what, HasSubstr("injected"));
    EXPECT_FALSE(drilled.rig.runner->step({}).ok());
  }
}

TEST(StepDrill, ARefusedProductIsSaidCountedByShapeAndChangesNoToken) {
  DrilledRig calm("");
  const Course want = run_two(calm.rig);
  DrilledRig drilled("blaslt_status");
  const auto first =
      drilled.rig.step({drilled.rig.feed(0, Form::prefill, 0, ids(20), 19)}, {drilled.rig.begin(0)});
  ASSERT_EQ(first.stats.fallbacks.size(), 1U);
  EXPECT_EQ(first.stats.fallbacks[0].count, 1U);
  EXPECT_THAT(first.stats.fallbacks[0].shape, HasSubstr("_f32"));
  ASSERT_EQ(drilled.warnings.size(), 1U);
  EXPECT_THAT(drilled.warnings[0], HasSubstr("a refusal was injected"));
  const Course got = run_two(drilled.rig);
  EXPECT_EQ(got.tokens[0], want.tokens[0]);
  EXPECT_EQ(got.tokens[1], want.tokens[1]);
  EXPECT_EQ(drilled.warnings.size(), 1U);
}

TEST(StepDrill, ASlowStepMakesProgress) {
  DrilledRig drilled("slow@ms=30@step=2");
  const auto prompt = [&] {
    const auto before = drilled.rig.runner->progress();
    const auto result =
        drilled.rig.step({drilled.rig.feed(0, Form::prefill, 0, ids(20), 19)}, {drilled.rig.begin(0)});
    EXPECT_TRUE(result.outcomes.at(0).done.ok());
    return std::pair{drilled.rig.runner->progress() - before, result.stats.seconds};
  };
  const auto usual = prompt();
  const auto slow = prompt();
  EXPECT_GT(slow.first, usual.first);
  EXPECT_GE(slow.second, 0.03);
}

/// The canary, at the start and later, is nobody's step: orders without its number wait.
TEST(StepDrill, OrdersWaitForTheStepInWhichTheyCanHappen) {
  DrilledRig drilled("nan@step=2,step_error@request=0");
  ModelRig& rig = drilled.rig;
  const auto plan_of = [&](StepNumber number, SequenceId id, bool samples) {
    StepPlan plan;
    plan.number = number;
    plan.resets = {rig.begin(0)};
    plan.feeds = {rig.feed(0, Form::prefill, 0, ids(64), samples ? 63 : 64)};
    plan.feeds[0].id = id;
    return error_of(rig.runner->step(plan)->outcomes.at(0));
  };
  EXPECT_EQ(plan_of(kStartupStep, 0, true), "");
  EXPECT_EQ(plan_of(1, 1, true), "");
  EXPECT_EQ(plan_of(2, 1, false), "");  // no logits that could be NaN
  EXPECT_THAT(plan_of(kIdleCanaryStep, 0, true), HasSubstr("choice 0 is refused"));
  EXPECT_EQ(plan_of(kIdleCanaryStep, 0, true), "");
  EXPECT_THAT(plan_of(3, 1, true), HasSubstr("not finite"));
  EXPECT_EQ(plan_of(4, 1, true), "");
}

TEST(HookedOps, EveryOperationHasTheNameThatOrdersKnow) {
  DrilledRig drilled("");
  run_two(drilled.rig);
  EXPECT_GT(drilled.ops_seen.size(), 50U);
  for (const std::string& op : drilled.ops_seen)
    EXPECT_THAT(kernels::kOpNames, ::testing::Contains(op)) << op;
}

}  // namespace
}  // namespace model
