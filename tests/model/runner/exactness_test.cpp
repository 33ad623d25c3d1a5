#include "exactness.h"

namespace model {
namespace {

using testing::expect_same;
using testing::expect_splits_agree;
using testing::fixture;
using testing::Job;
using testing::ModelRig;
using testing::random_ids;
using testing::Recorder;
using testing::RigOptions;
using testing::run_together;
using testing::same_bits;
using testing::State;
using testing::Trace;
using testing::trace;

// Rule 1. The bound of this model is 35, so nearly every prompt is past it.
TEST(Exactness, AnySplitOfAPromptOnTheGridGivesTheSameBits) { expect_splits_agree("tiny-qwen4_exp", 200); }
TEST(Exactness, AnySplitGivesTheSameBitsInTheOtherFamilies) {
  for (const char* name : {"tiny-qwen3_next", "tiny-qwen3_5", "tiny-qwen3_moe", "tiny-qwen3"})
    expect_splits_agree(name, 20);
}

// The form belongs to the position: a prompt's last token is prefill form even when it is fed alone.
TEST(Exactness, OneTokenTailOfAPromptIsPrefillForm) {
  ModelRig rig(fixture("tiny-qwen4_exp"), {});
  std::mt19937 random(7);
  const auto ids = random_ids(random, 129);
  const Trace whole = trace(rig, 0, ids, {129}, 0);
  expect_same(trace(rig, 1, ids, {128, 129}, 0), whole);

  rig.run(rig.feed(2, Form::prefill, 0, {ids.begin(), ids.begin() + 128}, 128), {rig.begin(2)});
  rig.run(rig.feed(2, Form::decode, 128, {ids[128]}, 0));
  const State other = rig.runner->read_state(2, 129);
  bool differs = false;
  for (std::size_t i = 0; i < other.size(); ++i)
    differs = differs || !same_bits(other[i].second, whole.state[i].second);
  EXPECT_TRUE(differs) << "the forms agree to the bit here, so this test cannot tell them apart";
}

// Decode rows fed again after a preemption: several in one step equal one at a time.
TEST(Exactness, SeveralKnownDecodeRowsInOneStepEqualSingleSteps) {
  ModelRig rig(fixture("tiny-qwen4_exp"), {});
  std::mt19937 random(11);
  const auto ids = random_ids(random, 70);
  const Trace single = trace(rig, 0, ids, {70}, 40);

  Recorder seen(rig);
  rig.runner->set_probe(&seen);
  rig.run(rig.feed(1, Form::prefill, 0, ids, 69), {rig.begin(1)});
  Position at = 70;
  for (const std::int32_t width : {1, 2, 3, 5, 7, 8, 8, 6}) {
    const auto first = single.tokens.begin() + (at - 70);
    rig.run(rig.feed(1, Form::decode, at, {first, first + width}, 0));
    at += width;
  }
  rig.runner->set_probe(nullptr);
  EXPECT_EQ(at, 110);
  EXPECT_TRUE(same_bits(seen.floats["logits"], single.logits));
  expect_same(rig.runner->read_state(1, at), single.state);
}

// Rule 2, for one, two and three workers; the sequences alone were computed with two.
TEST(Exactness, ARowDoesNotDependOnItsBatchNorOnTheNumberOfWorkers) {
  for (const char* name :
       {"tiny-qwen4_exp", "tiny-qwen4_exp-bf16", "tiny-llama", "tiny-qwen3_next", "tiny-qwen3_moe"}) {
    SCOPED_TRACE(name);
    RigOptions options;
    options.max_prefill_tokens = 192;
    std::mt19937 random(99);
    std::vector<Job> jobs(8);
    const std::size_t lengths[] = {1, 34, 35, 36, 64, 65, 150, 300};
    for (std::size_t j = 0; j < jobs.size(); ++j) jobs[j].ids = random_ids(random, lengths[j]);

    std::vector<Trace> alone;
    ModelRig single(fixture(name), options);
    for (const Job& job : jobs) {
      std::vector<std::int32_t> cuts;
      for (auto at = std::int32_t{192}; at < std::ssize(job.ids); at += 192) cuts.push_back(at);
      cuts.push_back(static_cast<std::int32_t>(job.ids.size()));
      alone.push_back(trace(single, 3, job.ids, cuts, 24));
    }
    for (const int workers : {1, 2, 3}) {
      SCOPED_TRACE(workers);
      options.num_workers = workers;
      ModelRig rig(fixture(name), options);
      const auto together = run_together(rig, jobs, random, 24);
      for (std::size_t j = 0; j < jobs.size(); ++j) {
        SCOPED_TRACE("prompt of " + std::to_string(lengths[j]));
        expect_same(together[j], alone[j]);
      }
    }
  }
}

// Nothing is read that was not written: fresh memory full of NaN changes no bit.
TEST(Exactness, PoisonedMemoryChangesNothing) {
  for (const char* name : {"tiny-qwen4_exp", "tiny-llama", "tiny-qwen3_next", "tiny-qwen3_moe"}) {
    SCOPED_TRACE(name);
    RigOptions options;
    ModelRig clean(fixture(name), options);
    options.poisoned = true;
    ModelRig poisoned(fixture(name), options);
    std::mt19937 random(5);
    for (const std::int32_t length : {1, 2, 3, 4, 35, 63, 64, 100}) {
      const auto ids = random_ids(random, static_cast<std::size_t>(length));
      SCOPED_TRACE(length);
      expect_same(trace(poisoned, length % 8, ids, {length}, 20),
                  trace(clean, length % 8, ids, {length}, 20));
    }
  }
}

// A slot that was used before begins a new sequence like a fresh one.
TEST(Exactness, AResetSlotRemembersNothing) {
  for (const char* name : {"tiny-qwen4_exp", "tiny-qwen3_next", "tiny-qwen3"}) {
    SCOPED_TRACE(name);
    ModelRig rig(fixture(name), {});
    std::mt19937 random(6);
    const auto before = random_ids(random, 200);
    const auto ids = random_ids(random, 3);
    const Trace fresh = trace(rig, 1, ids, {3}, 20);
    trace(rig, 0, before, {200}, 10);
    expect_same(trace(rig, 0, ids, {3}, 20), fresh);
  }
}

// Sampling rows inside a prompt must not disturb what later rows hash.
TEST(Exactness, LogitsOfInnerPromptRowsLeaveTheIdsAlone) {
  RigOptions options;
  options.max_batch_size = 64;
  ModelRig rig(fixture("tiny-qwen4_exp"), options);
  std::mt19937 random(8);
  const auto ids = random_ids(random, 64);
  const Trace plain = trace(rig, 0, ids, {64}, 10);
  const auto sampled = rig.run(rig.feed(1, Form::prefill, 0, ids, 0), {rig.begin(1)});
  ASSERT_EQ(sampled.size(), 64U);
  std::vector<TokenId> tokens{sampled.back()};
  for (int i = 0; i < 10; ++i)
    tokens.push_back(rig.run(rig.feed(1, Form::decode, 64 + i, {tokens.back()}, 0)).at(0));
  EXPECT_EQ(tokens, plain.tokens);
  expect_same(rig.runner->read_state(1, 74), plain.state);
}

}  // namespace
}  // namespace model
