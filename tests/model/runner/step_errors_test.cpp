#include <gtest/gtest.h>

#include <cmath>

#include "model/cache/kv_layout.h"
#include "model/runner/step_buffers.h"
#include "model_rig.h"

namespace model {
namespace {

using testing::fixture;
using testing::ModelRig;
using testing::RigOptions;

ModelRig make_rig() {
  RigOptions options;
  options.max_batch_size = 4;
  options.max_prefill_tokens = 128;
  options.max_seq_len = 256;
  return {fixture("tiny-qwen4_exp"), options};
}
std::vector<TokenId> ids(std::int32_t count) {
  std::vector<TokenId> made(static_cast<std::size_t>(count));
  for (std::int32_t i = 0; i < count; ++i) made[static_cast<std::size_t>(i)] = i * 13 % 250;
  return made;
}
std::string error_of(const FeedOutcome& outcome) {
  return outcome.done.ok() ? "" : outcome.done.error().what;
}

struct BadFeed {
  const char* what;  // part of the message
  std::function<void(ModelRig&, Feed&, StepPlan&)> spoil;
};

const BadFeed kBadFeeds[] = {
    {"state slot 4 of 4", [](ModelRig&, Feed& feed, StepPlan&) { feed.slot = 4; }},
    {"state slot -1 of 4", [](ModelRig&, Feed& feed, StepPlan&) { feed.slot = -1; }},
    {"never reset", [](ModelRig&, Feed& feed, StepPlan&) { feed.slot = 3; }},
    {"fed twice", [](ModelRig&, Feed& feed, StepPlan&) { feed.slot = 0; }},
    {"feeds from position 65 but 64 positions were fed",
     [](ModelRig&, Feed& feed, StepPlan&) { feed.first = 65; }},
    {"feeds from position 63 but 64 positions were fed",
     [](ModelRig&, Feed& feed, StepPlan&) { feed.first = 63; }},
    {"no tokens", [](ModelRig&, Feed& feed, StepPlan&) { feed.known.clear(); }},
    {"position 256 is past --max-seq-len 256",
     [](ModelRig&, Feed& feed, StepPlan&) { feed.known = ids(193); }},
    {"4 pages of 16 do not hold 65 positions",
     [](ModelRig&, Feed& feed, StepPlan&) { feed.new_pages.clear(); }},
    {"17 pages are more than the 16", [](ModelRig&, Feed& feed, StepPlan&) { feed.new_pages.assign(13, 0); }},
    {"page -1 of", [](ModelRig&, Feed& feed, StepPlan&) { feed.new_pages = {-1}; }},
    {"page 64 of 64", [](ModelRig&, Feed& feed, StepPlan&) { feed.new_pages = {64}; }},
    {"token id 256 is not in the vocabulary", [](ModelRig&, Feed& feed, StepPlan&) { feed.known = {256}; }},
    {"token id -1 is not in the vocabulary", [](ModelRig&, Feed& feed, StepPlan&) { feed.known = {-1}; }},
    {"logits of rows 1 + 1 of 1",
     [](ModelRig&, Feed& feed, StepPlan&) {
       feed.logits = {1, 1};
     }},
    {"logits of rows -1 + 1 of 1",
     [](ModelRig&, Feed& feed, StepPlan&) {
       feed.logits = {-1, 1};
     }},
    {"logits of rows 0 + 2 of 1",
     [](ModelRig&, Feed& feed, StepPlan&) {
       feed.logits = {0, 2};
     }},
    {"logits of rows 0 + -1 of 1",
     [](ModelRig&, Feed& feed, StepPlan&) {
       feed.logits = {0, -1};
     }},
    {"without sampling parameters", [](ModelRig&, Feed& feed, StepPlan&) { feed.sampling = nullptr; }},
    {"logit_bias token id 256",
     [](ModelRig&, Feed& feed, StepPlan&) {
       auto sampling = std::make_shared<SamplingParams>();
       sampling->logit_bias = {{256, 1.0F}};
       feed.sampling = sampling;
     }},
    {"1025 logit biases; 1024 fit",
     [](ModelRig&, Feed& feed, StepPlan&) {
       auto sampling = std::make_shared<SamplingParams>();
       sampling->logit_bias.assign(1025, {1, 1.0F});
       feed.sampling = sampling;
     }},
    {"21 logprobs; 20 are possible",
     [](ModelRig&, Feed& feed, StepPlan&) {
       auto sampling = std::make_shared<SamplingParams>();
       sampling->num_logprobs = 21;
       feed.sampling = sampling;
     }},
    {"a prompt of 257 tokens", [](ModelRig&, Feed& feed, StepPlan&) { feed.prompt_tokens = 257; }},
    {"banned token id 256", [](ModelRig&, Feed& feed, StepPlan&) { feed.bans = {256}; }},
    {"1025 bans; 1024 fit", [](ModelRig&, Feed& feed, StepPlan&) { feed.bans.assign(1025, 1); }},
    {"penalties over several rows",
     [](ModelRig&, Feed& feed, StepPlan&) {
       auto sampling = std::make_shared<SamplingParams>();
       sampling->presence_penalty = 1.0F;
       feed.sampling = sampling;
       feed.known = {1, 2};
       feed.logits = {0, 2};
     }},
    {"num_drafts 1 cannot be executed", [](ModelRig&, Feed& feed, StepPlan&) { feed.num_drafts = 1; }},
    {"mask cannot be executed",
     [](ModelRig&, Feed& feed, StepPlan&) { feed.mask = std::make_shared<std::vector<std::uint32_t>>(8); }},
    {"step in flight cannot be executed",
     [](ModelRig&, Feed& feed, StepPlan&) {
       feed.from_step_in_flight = RowRef{1, 0};
     }},
    {"restore cannot be executed",
     [](ModelRig&, Feed&, StepPlan& plan) {
       plan.restores.push_back({1, 0, 64, {}});
     }},
    {"capture cannot be executed",
     [](ModelRig&, Feed&, StepPlan& plan) {
       plan.captures.push_back({1, 0, 64});
     }},
    {"129 prefill rows in a step of 128 (--max-prefill-tokens)",
     [](ModelRig&, Feed& feed, StepPlan&) {
       feed.form = Form::prefill;
       feed.known = ids(129);
       feed.new_pages.assign(9, 0);
       feed.logits = {0, 1};
     }},
    {"69 logits rows in a step of 68",
     [](ModelRig&, Feed& feed, StepPlan&) {
       feed.form = Form::prefill;
       feed.known = ids(68);
       feed.new_pages.assign(5, 0);
       feed.logits = {0, 68};
     }},
    {"2 given tokens for 1 logits rows",
     [](ModelRig&, Feed& feed, StepPlan&) {
       feed.given = {1, 2};
     }},
    {"given token id -1 is not in the vocabulary",
     [](ModelRig&, Feed& feed, StepPlan&) { feed.given = {-1}; }},
};

// Each of them is answered by its own StepError; the good feed beside it runs, and the bad one's slot goes on
// as if nothing had been.
TEST(StepErrors, ABadFeedIsRefusedAloneAndNothingIsHalfDone) {
  ModelRig reference = make_rig();
  reference.run(reference.feed(1, Form::prefill, 0, ids(64), 63), {reference.begin(1)});
  reference.run(reference.feed(1, Form::decode, 64, {9}, 0));
  const auto expected = reference.runner->read_state(1, 65);

  for (const BadFeed& bad : kBadFeeds) {
    SCOPED_TRACE(bad.what);
    ModelRig rig = make_rig();
    rig.run(rig.feed(0, Form::prefill, 0, ids(32), 31), {rig.begin(0)});
    rig.run(rig.feed(1, Form::prefill, 0, ids(64), 63), {rig.begin(1)});
    StepPlan plan;
    plan.number = 77;
    plan.feeds.push_back(rig.feed(0, Form::decode, 32, {5}, 0));
    const Feed good = rig.feed(1, Form::decode, 64, {9}, 0);
    plan.feeds.push_back(good);
    plan.feeds[1].plan_epoch = 6;
    bad.spoil(rig, plan.feeds[1], plan);
    const auto result = rig.runner->step(plan);
    ASSERT_TRUE(result.ok());
    ASSERT_EQ(result->outcomes.size(), 2U);
    EXPECT_EQ(error_of(result->outcomes[0]), "");
    EXPECT_NE(error_of(result->outcomes[1]).find(bad.what), std::string::npos)
        << error_of(result->outcomes[1]);
    EXPECT_EQ(result->outcomes[1].id, 2U);
    EXPECT_EQ(result->outcomes[1].plan_epoch, 6U);

    rig.run(good);
    EXPECT_EQ(rig.runner->read_state(1, 65), expected);
  }
}

TEST(StepErrors, PrefillOffTheGridIsRefused) {
  ModelRig rig = make_rig();
  rig.run(rig.feed(0, Form::prefill, 0, ids(63), 62), {rig.begin(0)});
  const StepResult result = rig.step({rig.feed(0, Form::prefill, 63, {1, 2}, 1)});
  EXPECT_NE(error_of(result.outcomes.at(0)).find("not on the grid"), std::string::npos);
}

TEST(StepErrors, AStepOfNothingButRefusedFeedsIsAnswered) {
  ModelRig rig = make_rig();
  EXPECT_FALSE(rig.step({rig.feed(0, Form::prefill, 0, ids(4), 3)}).outcomes.at(0).done.ok());
  EXPECT_TRUE(rig.step({}).outcomes.empty());
}

// Whatever operation refuses: every sequence of the step fails, none of their slots is fed before a reset,
// others go on, and after the reset the slot computes what a fresh one does.
TEST(StepErrors, ARefusedOperationBreaksTheStepsSlotsUntilTheirReset) {
  ModelRig rig = make_rig();
  const auto want = rig.generate(3, ids(70), 6);
  rig.run(rig.feed(2, Form::prefill, 0, ids(10), 9), {rig.begin(2)});

  rig.run(rig.feed(0, Form::prefill, 0, ids(64), 64), {rig.begin(0)});
  rig.run(rig.feed(1, Form::prefill, 0, ids(64), 63), {rig.begin(1)});
  const int before = rig.stream->operations();
  rig.step({rig.feed(0, Form::prefill, 64, ids(6), 5), rig.feed(1, Form::decode, 64, {3}, 0)});
  const int operations = rig.stream->operations() - before;
  ASSERT_GT(operations, 50);

  for (int at = 1; at <= operations; at += at < 8 || at + 8 > operations ? 1 : 17) {
    SCOPED_TRACE("operation " + std::to_string(at) + " of " + std::to_string(operations));
    rig.run(rig.feed(0, Form::prefill, 0, ids(64), 64), {rig.begin(0)});
    rig.run(rig.feed(1, Form::prefill, 0, ids(64), 63), {rig.begin(1)});
    rig.stream->fail_after(at, gpu::DeviceError::Kind::refused);
    const StepResult failed =
        rig.step({rig.feed(0, Form::prefill, 64, ids(6), 5), rig.feed(1, Form::decode, 64, {3}, 0)});
    for (const FeedOutcome& outcome : failed.outcomes)
      EXPECT_NE(error_of(outcome).find("injected at"), std::string::npos) << error_of(outcome);
    const StepResult again =
        rig.step({rig.feed(0, Form::decode, 64, {3}, 0), rig.feed(1, Form::decode, 64, {3}, 0)});
    for (const FeedOutcome& outcome : again.outcomes)
      EXPECT_NE(error_of(outcome).find("broken"), std::string::npos) << error_of(outcome);
  }
  rig.run(rig.feed(2, Form::decode, 10, {1}, 0));
  EXPECT_EQ(rig.generate(0, ids(70), 6), want);
  EXPECT_EQ(rig.generate(1, ids(70), 6), want);
}

TEST(StepErrors, ARefusedResetLeavesTheSlotBroken) {
  ModelRig rig = make_rig();
  rig.stream->fail_after(1, gpu::DeviceError::Kind::refused);
  const StepResult failed = rig.step({}, {rig.begin(0)});
  EXPECT_TRUE(failed.outcomes.empty());
  EXPECT_NE(error_of(rig.step({rig.feed(0, Form::prefill, 0, ids(4), 3)}).outcomes.at(0)).find("broken"),
            std::string::npos);
  rig.run(rig.feed(0, Form::prefill, 0, ids(4), 3), {rig.begin(0)});
}

TEST(StepErrors, ALostDeviceIsFatalForEver) {
  ModelRig rig = make_rig();
  rig.stream->fail_after(30, gpu::DeviceError::Kind::lost);
  StepPlan plan;
  plan.resets = {0};
  plan.feeds.push_back(rig.feed(0, Form::prefill, 0, ids(64), 63));
  const auto result = rig.runner->step(plan);
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().what.find("injected at"), std::string::npos);
  EXPECT_FALSE(rig.runner->step({}).ok());
}

// Makes the logits of one sequence NaN where a device fault would: in the middle of the forward pass.
class PoisonOneSlot final : public ForwardProbe {
 public:
  void see(std::string_view name, gpu::ConstMatrix value, const kernels::RowBatch& batch) override {
    if (name != "layer0") return;
    for (std::int64_t r = 0; r < value.rows.n; ++r)
      if (batch.row_slot.base[r] == 1)
        *const_cast<float*>(reinterpret_cast<const float*>(value.from_row(gpu::Rows{r}).base)) = NAN;
  }
};

TEST(StepErrors, LogitsThatAreNotFiniteFailTheirSequenceOnly) {
  ModelRig rig = make_rig();
  rig.run(rig.feed(0, Form::prefill, 0, ids(64), 63), {rig.begin(0)});
  rig.run(rig.feed(1, Form::prefill, 0, ids(64), 63), {rig.begin(1)});
  PoisonOneSlot poison;
  rig.runner->set_probe(&poison);
  const StepResult result =
      rig.step({rig.feed(0, Form::decode, 64, {3}, 0), rig.feed(1, Form::decode, 64, {3}, 0)});
  rig.runner->set_probe(nullptr);
  EXPECT_EQ(error_of(result.outcomes.at(0)), "");
  EXPECT_NE(error_of(result.outcomes.at(1)).find("not finite"), std::string::npos);
  rig.run(rig.feed(0, Form::decode, 65, {3}, 0));
  EXPECT_NE(error_of(rig.step({rig.feed(1, Form::decode, 65, {3}, 0)}).outcomes.at(0)).find("broken"),
            std::string::npos);
}

TEST(Arena, AStepTakesExactlyWhatThePlanSays) {
  for (const char* name : {"tiny-qwen4_exp", "tiny-llama"}) {
    RigOptions options;
    options.max_seq_len = 256;
    ModelRig rig(fixture(name), options);
    rig.run(rig.feed(0, Form::prefill, 0, ids(3), 2), {rig.begin(0)});
    rig.run(rig.feed(0, Form::decode, 3, {1}, 0));
    EXPECT_EQ(rig.runner->arena_high_water(), rig.plan.arena_bytes) << name;
    EXPECT_EQ(rig.runner->arena_high_water(), step_arena_bytes(rig.config, rig.plan)) << name;
    rig.generate(1, ids(200), 10);
    EXPECT_EQ(rig.runner->arena_high_water(), rig.plan.arena_bytes) << name;
  }
}

// Scratch is taken at capacity, so one token shows what the widest step takes.
TEST(Arena, OfManySequencesAndLongChunksIsWhatThePlanSays) {
  for (const std::int32_t prefill : {8192, 20480}) {
    RigOptions options;
    options.max_batch_size = 64;
    options.max_prefill_tokens = prefill;
    ModelRig rig(fixture("tiny-qwen4_exp"), options);
    EXPECT_EQ(rig.plan.max_batch_tokens, prefill + 64);
    rig.run(rig.feed(0, Form::prefill, 0, ids(1), 0), {rig.begin(0)});
    EXPECT_EQ(rig.runner->arena_high_water(), rig.plan.arena_bytes) << prefill;
  }
}

// What the plan prints is what the runner allocates (but for the alignment of each buffer).
TEST(Arena, PageAndSlotMemoryAreWhatThePlanSays) {
  for (const char* name : {"tiny-qwen4_exp", "tiny-llama"}) {
    ModelRig rig(fixture(name), {});
    EXPECT_EQ(page_memory_bytes(rig.config, rig.plan), rig.plan.kv_bytes) << name;
    const std::int64_t tables =
        4 * std::int64_t{rig.plan.num_state_slots} *
        (2 * rig.plan.max_seq_len + rig.plan.pages_per_sequence + rig.plan.vocab_size + 2);
    EXPECT_EQ(slot_memory_bytes(rig.config, rig.plan).n + tables, rig.plan.state_bytes.n) << name;
  }
}

// Every row that the plan has room for, at the last position: the widest step there is.
TEST(Arena, TheWidestStepFits) {
  ModelRig rig = make_rig();
  rig.run(rig.feed(0, Form::prefill, 0, ids(128), 128), {rig.begin(0)});
  rig.run(rig.feed(1, Form::prefill, 0, ids(128), 128), {rig.begin(1)});
  rig.run(rig.feed(2, Form::prefill, 0, ids(100), 100), {rig.begin(2)});
  std::vector<Feed> feeds;
  feeds.push_back(rig.feed(0, Form::prefill, 128, ids(128), 127));
  feeds.push_back(rig.feed(1, Form::decode, 128, {1}, 0));
  feeds.push_back(rig.feed(2, Form::decode, 100, {1}, 0));
  feeds.push_back(rig.feed(3, Form::decode, 0, {1}, 0));
  const StepResult result = rig.step(feeds, {rig.begin(3)});
  for (const FeedOutcome& outcome : result.outcomes) EXPECT_EQ(error_of(outcome), "");
  EXPECT_EQ(result.stats.prefill_rows, 128);
  EXPECT_EQ(result.stats.decode_rows, 3);
  EXPECT_EQ(rig.runner->arena_high_water(), rig.plan.arena_bytes);
}

TEST(Runner, ProgressRisesOnceALayerAtLeast) {
  ModelRig rig = make_rig();
  const std::uint64_t before = rig.runner->progress();
  rig.run(rig.feed(0, Form::prefill, 0, ids(3), 2), {rig.begin(0)});
  EXPECT_GE(rig.runner->progress(), before + rig.config.layers.size());
}

}  // namespace
}  // namespace model
