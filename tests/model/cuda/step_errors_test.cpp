#include <gmock/gmock.h>

#include "tests/model/cuda/device_rig.h"
#include "tests/model/cuda/hooked_ops.h"

namespace model {
namespace {

using testing::fixture;
using testing::HookedOps;
using testing::ModelRig;
using testing::on_device;
using testing::RigOptions;

std::vector<TokenId> ids(std::int32_t count) {
  std::vector<TokenId> made;
  for (std::int32_t i = 0; i < count; ++i) made.push_back(i * 13 % 250);
  return made;
}
std::string error_of(const FeedOutcome& outcome) {
  return outcome.done.ok() ? "" : outcome.done.error().what;
}

/// A rig whose operations can be made to suffer.
struct HookedRig {
  HookedOps* ops = nullptr;
  ModelRig rig;

  HookedRig() : rig(fixture("tiny-llama"), options(ops)) {}
  static RigOptions options(HookedOps*& ops) {
    RigOptions options = on_device(DTypeOption::bfloat16);
    options.max_batch_size = 4;
    options.max_prefill_tokens = 64;
    options.max_seq_len = 128;
    options.backend = [&ops] {
      testing::RigBackend backend = testing::device_backend();
      auto hooked = std::make_unique<HookedOps>(std::move(backend.ops));
      ops = hooked.get();
      backend.ops = std::move(hooked);
      return backend;
    };
    return options;
  }
  /// `fault` is suffered by the step's operation number `at`.
  void suffer(int at, gpu::InjectedFault fault) {
    const int first = ops->num_operations();
    ops->before_index = [=](gpu::Stream& stream, int index) -> gpu::Status {
      if (index - first != at) return gpu::Done{};
      return stream.inject(fault, "injected by a test");
    };
  }
};

TEST(DeviceStepErrors, ARefusedLaunchIsAStepErrorAndTheNextStepWorks) {
  REQUIRE_DEVICE();
  HookedRig hooked;
  ModelRig& rig = hooked.rig;
  const auto want = rig.generate(3, ids(20), 3);
  rig.run(rig.feed(2, Form::prefill, 0, ids(5), 4), {rig.begin(2)});
  const int before = hooked.ops->num_operations();
  rig.run(rig.feed(2, Form::decode, 5, {7}, 0));
  const int operations = hooked.ops->num_operations() - before;
  ASSERT_GT(operations, 20);

  for (const int at : {0, 1, operations / 2, operations - 1}) {
    SCOPED_TRACE("operation " + std::to_string(at) + " of " + std::to_string(operations));
    rig.run(rig.feed(0, Form::prefill, 0, ids(20), 19), {rig.begin(0)});
    hooked.suffer(at, gpu::InjectedFault::refused_launch);
    const StepResult failed = rig.step({rig.feed(0, Form::decode, 20, {3}, 0)});
    hooked.ops->before_index = nullptr;
    EXPECT_THAT(error_of(failed.outcomes.at(0)), ::testing::HasSubstr("injected by a test"));
    EXPECT_THAT(error_of(rig.step({rig.feed(0, Form::decode, 20, {3}, 0)}).outcomes.at(0)),
                ::testing::HasSubstr("broken"));
    EXPECT_EQ(rig.generate(0, ids(20), 3), want);
  }
  rig.run(rig.feed(2, Form::decode, 6, {7}, 0));  // the sequence that was not in those steps goes on
}

/// The plan's check knows the vocabulary; what reaches the device all the same is found there.
TEST(DeviceStepErrors, ATokenOutOfRangeOnTheDeviceIsAStepErrorAndTheNextStepWorks) {
  REQUIRE_DEVICE();
  HookedRig hooked;
  ModelRig& rig = hooked.rig;
  const auto want = rig.generate(3, ids(20), 3);
  for (const TokenId wrong : {256, -1, 99999}) {
    SCOPED_TRACE(wrong);
    rig.run(rig.feed(0, Form::prefill, 0, ids(20), 19), {rig.begin(0)});
    hooked.ops->before_embedding = [&](gpu::Stream& stream, const kernels::EmbeddingArgs& args) {
      auto* const place = const_cast<std::int32_t*>(args.ids.row(gpu::Rows{0})) + 20;
      return stream.copy_to_device(reinterpret_cast<std::byte*>(place), &wrong,
                                   gpu::bytes_of<TokenId>(gpu::Elements{1}), "a wrong token");
    };
    const StepResult failed = rig.step({rig.feed(0, Form::decode, 20, {3}, 0)});
    hooked.ops->before_embedding = nullptr;
    EXPECT_THAT(error_of(failed.outcomes.at(0)), ::testing::HasSubstr("embedding"));
    EXPECT_THAT(error_of(failed.outcomes.at(0)), ::testing::HasSubstr(std::to_string(wrong)));
    EXPECT_EQ(rig.generate(0, ids(20), 3), want);
  }
}

/// In a process of its own: what is lost here is lost for every test.
TEST(DeviceStepErrorsDeathTest, AnIllegalAccessIsFatalForEver) {
  REQUIRE_DEVICE();
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto lose = [] {
    HookedRig hooked;
    ModelRig& rig = hooked.rig;
    rig.run(rig.feed(0, Form::prefill, 0, ids(20), 19), {rig.begin(0)});
    hooked.suffer(5, gpu::InjectedFault::illegal_address);
    StepPlan plan;
    plan.feeds.push_back(rig.feed(0, Form::decode, 20, {3}, 0));
    const bool fatal = !rig.runner->step(plan).ok();
    hooked.ops->before_index = nullptr;
    const bool for_ever = !rig.runner->step({}).ok();
    std::_Exit(fatal && for_ever ? 42 : 1);
  };
  EXPECT_EXIT(lose(), ::testing::ExitedWithCode(42), "");
}

}  // namespace
}  // namespace model
