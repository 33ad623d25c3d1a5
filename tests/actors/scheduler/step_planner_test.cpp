#include "actors/scheduler/step_planner.h"

#include <gtest/gtest.h>

#include "actors/scheduler/admission.h"

namespace actors {
namespace {

using kernels::Form;

Candidate prompt(std::int32_t tokens, model::Position fed = 0) {
  Candidate c;
  c.fed = fed;
  c.prompt_tokens = tokens;
  c.known = tokens;
  c.samples_allowed = 32;
  return c;
}
Candidate decoding(std::int32_t tokens) {
  auto c = prompt(5, tokens - 1);
  c.known = tokens;
  return c;
}

TEST(StepPlanner, ChunksEndOnTheGridUnlessTheyEndThePrompt) {
  struct Case {
    std::int32_t prompt, fed, rows, width;
    bool samples;
  };
  const Case cases[] = {
      {1, 0, 128, 1, true},      {63, 0, 128, 63, true},   {64, 0, 128, 64, true},
      {65, 0, 128, 65, true},    {127, 0, 128, 127, true}, {128, 0, 128, 128, true},
      {129, 0, 128, 128, false}, {129, 128, 128, 1, true}, {300, 128, 128, 128, false},
      {300, 256, 128, 44, true}, {65, 0, 64, 64, false},   {200, 0, 191, 128, false},
      {200, 0, 63, 0, false},
  };
  for (const auto& c : cases) {
    const Candidate candidates[] = {prompt(c.prompt, c.fed)};
    const auto feeds = plan_step(candidates, {c.rows});
    if (c.width == 0) {
      EXPECT_TRUE(feeds.empty());
      continue;
    }
    ASSERT_EQ(feeds.size(), 1U) << c.prompt;
    EXPECT_EQ(feeds[0].form, Form::prefill);
    EXPECT_EQ(feeds[0].first, c.fed);
    EXPECT_EQ(feeds[0].width, c.width) << c.prompt << " from " << c.fed;
    EXPECT_EQ(feeds[0].samples, c.samples);
  }
}

TEST(StepPlanner, PromptsThatNeedLogitsShareTheRowsThatMayHaveThem) {
  auto told = prompt(300);
  told.prompt_logits = true;
  const Candidate candidates[] = {told, told, prompt(300)};
  const auto feeds = plan_step(candidates, {256, 64});
  ASSERT_EQ(feeds.size(), 2U);
  EXPECT_EQ(feeds[0].candidate, 0U);
  EXPECT_EQ(feeds[0].width, 64);
  EXPECT_EQ(feeds[1].candidate, 2U);
  EXPECT_EQ(feeds[1].width, 192);
  auto tail = told;
  tail.fed = 256;  // 44 rows are left, and 20 for the next one are no chunk
  const Candidate two[] = {tail, told};
  EXPECT_EQ(plan_step(two, {256, 64}).size(), 1U);
}

TEST(StepPlanner, AOneTokenPromptTailIsPrefillForm) {
  const Candidate candidates[] = {prompt(65, 64)};
  EXPECT_EQ(plan_step(candidates, {64})[0].form, Form::prefill);
}

TEST(StepPlanner, PrefillFeedsComeFirstAndEveryDecodingSequenceGetsItsRow) {
  const Candidate candidates[] = {decoding(9), prompt(500), decoding(30), prompt(3)};
  const auto feeds = plan_step(candidates, {128});
  ASSERT_EQ(feeds.size(), 3U);
  EXPECT_EQ(feeds[0].candidate, 1U);
  EXPECT_EQ(feeds[0].width, 128);
  EXPECT_EQ(feeds[1].candidate, 0U);
  EXPECT_EQ(feeds[2].candidate, 2U);
  EXPECT_EQ(feeds[1].form, Form::decode);
  EXPECT_EQ(feeds[1].width, 1);
  EXPECT_TRUE(feeds[1].samples);
}

TEST(StepPlanner, PromptsAreServedInOrderAndShareTheRows) {
  const Candidate candidates[] = {prompt(40), prompt(100), prompt(20)};
  const auto feeds = plan_step(candidates, {128});
  ASSERT_EQ(feeds.size(), 3U);
  EXPECT_EQ(feeds[0].width, 40);
  EXPECT_EQ(feeds[1].width, 64);  // 88 rows are left: the grid
  EXPECT_EQ(feeds[2].width, 20);  // 24 rows are left, and it ends its prompt
}

TEST(StepPlanner, APausedSequenceIsNotFed) {
  Candidate candidates[] = {decoding(9), prompt(20)};
  candidates[0].paused = candidates[1].paused = true;
  EXPECT_TRUE(plan_step(candidates, {128}).empty());
}

TEST(StepPlanner, NoRowBeyondTheWindowOrTheLength) {
  Candidate candidates[] = {decoding(9)};
  candidates[0].samples_allowed = 1;
  EXPECT_EQ(plan_step(candidates, {128}).size(), 1U);
  candidates[0].samples_allowed = 0;
  EXPECT_TRUE(plan_step(candidates, {128}).empty());
}

TEST(StepPlanner, ARowAheadTakesTheSampleInFlight) {
  Candidate candidates[] = {decoding(9)};
  candidates[0].fed = 9;  // the plan in flight feeds position 8
  EXPECT_TRUE(plan_step(candidates, {128}).empty());
  candidates[0].samples_in_flight = 1;
  const auto feeds = plan_step(candidates, {128});
  ASSERT_EQ(feeds.size(), 1U);
  EXPECT_TRUE(feeds[0].from_in_flight);
  EXPECT_EQ(feeds[0].first, 9);
  candidates[0].needs_committed = true;  // a ban: planned after the step is done
  EXPECT_TRUE(plan_step(candidates, {128}).empty());
}

TEST(Admission, TheHeadNeedsASlotAndThePagesThatNobodyWasPromised) {
  const Room room{1, 1, 10, 4};
  EXPECT_TRUE(admits(room, 5));
  EXPECT_TRUE(admits(room, 6));
  EXPECT_FALSE(admits(room, 7));
  EXPECT_FALSE(admits({0, 1, 10, 0}, 1));
  EXPECT_FALSE(admits({1, 0, 10, 0}, 1));
  EXPECT_EQ(pages_for(15, 16), 1);
  EXPECT_EQ(pages_for(16, 16), 1);
  EXPECT_EQ(pages_for(17, 16), 2);
}

}  // namespace
}  // namespace actors
