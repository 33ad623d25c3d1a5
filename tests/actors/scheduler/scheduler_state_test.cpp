#include "actors/scheduler/scheduler_state.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/actors/scheduler/scheduler_harness.h"

namespace actors {
namespace {

using model::FinishReason;
using testing::SchedulerHarness;
using testing::small_limits;

FinishReason reason_of(SchedulerHarness& h, model::SequenceId id) {
  return std::get<model::SequenceRecord::Finished>(h.state().find(id)->state()).end.why;
}

TEST(SchedulerState, ASequenceIsAcceptedFedAndEndsByLength) {
  SchedulerHarness h(small_limits());
  h.add(1, 3, 4);
  EXPECT_TRUE(h.listeners[1].accepted);
  ASSERT_EQ(h.plans().size(), 1U);
  EXPECT_EQ(h.plans()[0]->number, 1U);
  EXPECT_EQ(h.plans()[0]->resets, std::vector<model::StateSlot>{0});
  h.run();
  EXPECT_EQ(h.listeners[1].tokens, (std::vector<model::TokenId>{'c', 'd', 'e', 'f'}));
  EXPECT_EQ(h.listeners[1].end->why, FinishReason::length);
  EXPECT_EQ(h.state().pages().free(), 40);
  EXPECT_EQ(h.state().slots().free(), 2);
  EXPECT_EQ(h.state().load().running, 0);
}

TEST(SchedulerState, TheLikelihoodOfAPromptIsAskedForInChunksAndToldApartFromWhatIsGenerated) {
  SchedulerHarness h(small_limits());
  auto registration = SchedulerHarness::registration(1, 100, 3);
  std::vector<model::TokenId> prompt;
  for (model::TokenId i = 0; i < 100; ++i) prompt.push_back(i + 1);
  registration.prompt = std::make_shared<const std::vector<model::TokenId>>(prompt);
  registration.prompt_logprobs = true;
  h.send(registration);
  ASSERT_EQ(h.plans().size(), 1U);
  const auto& first = h.plans()[0]->feeds[0];
  EXPECT_EQ(first.known.size(), 64U);
  EXPECT_EQ(first.logits.first, 0);
  EXPECT_EQ(first.logits.count, 64);
  EXPECT_EQ(first.given, std::vector<model::TokenId>(prompt.begin() + 1, prompt.begin() + 65));
  h.finish_step();
  const auto& second = h.plans()[0]->feeds[0];
  EXPECT_EQ(second.known.size(), 36U);
  EXPECT_EQ(second.logits.count, 36);
  EXPECT_EQ(second.given, std::vector<model::TokenId>(prompt.begin() + 65, prompt.end()));
  h.run();
  EXPECT_EQ(h.listeners[1].prompt, std::vector<model::TokenId>(prompt.begin() + 1, prompt.end()));
  EXPECT_EQ(h.listeners[1].tokens.size(), 3U);
}

TEST(SchedulerState, TheNextPlanLeavesBeforeTheTokensOfTheLast) {
  SchedulerHarness h(small_limits());
  h.add(1, 3, 4);
  const auto effects = h.send(h.answer());
  ASSERT_EQ(effects.size(), 2U);
  EXPECT_TRUE(std::holds_alternative<SubmitPlan>(effects[0]));
  EXPECT_TRUE(std::holds_alternative<ToSequence<TokensReady>>(effects[1]));
}

TEST(SchedulerState, OnePlanIsInFlightAtDepthOne) {
  SchedulerHarness h(small_limits());
  h.add(1, 3, 4);
  h.add(2, 3, 4);
  EXPECT_EQ(h.plans().size(), 1U);
  h.finish_step();
  EXPECT_EQ(h.plans().size(), 1U);
  EXPECT_EQ(h.plans()[0]->feeds.size(), 2U);
}

TEST(SchedulerState, BeyondTheBatchSequencesWaitAndBeyondTheQueueTheyAreRefused) {
  SchedulerHarness h(small_limits());
  for (model::SequenceId id = 1; id <= 5; ++id) h.add(id, 3, 4);
  EXPECT_EQ(h.state().load().running, 2);
  EXPECT_EQ(h.state().load().waiting, 2);
  EXPECT_TRUE(h.listeners[4].accepted);
  ASSERT_TRUE(h.listeners[5].refused);
  EXPECT_EQ(h.listeners[5].refused->kind, model::RequestError::Kind::overloaded);
  h.run();
  for (model::SequenceId id = 1; id <= 4; ++id) EXPECT_EQ(h.listeners[id].tokens.size(), 4U) << id;
  EXPECT_TRUE(h.listeners[5].tokens.empty());
}

TEST(SchedulerState, ThePagesOfAWholeLifeAreReservedAtAdmission) {
  auto limits = small_limits();
  limits.num_pages = 5;
  SchedulerHarness h(limits);
  h.add(1, 16, 32);  // 3 pages in the end, 1 granted now
  h.add(2, 16, 17);  // 3 pages: two are not promised to anybody
  EXPECT_EQ(h.state().load().running, 1);
  h.add(3, 1, 1);  // would fit, but nobody overtakes the head
  EXPECT_EQ(h.state().load().waiting, 2);
  h.run();
  for (model::SequenceId id = 1; id <= 3; ++id)
    EXPECT_EQ(h.listeners[id].end->why, FinishReason::length) << id;
}

TEST(SchedulerState, AnOutcomeWithAnOldPlanEpochIsDroppedWhole) {
  SchedulerHarness h(small_limits());
  h.add(1, 3, 10);
  h.finish_step();
  const auto tokens = h.state().find(1)->num_tokens();
  const auto fed = h.state().find(1)->fed();
  const auto late = h.answer();  // computed, on its way
  h.send(Finish{1, 0, 1});
  const auto effects = h.send(late);
  EXPECT_TRUE(effects.empty());
  EXPECT_EQ(h.state().find(1)->num_tokens(), tokens);
  EXPECT_EQ(h.state().find(1)->fed(), fed);
  EXPECT_EQ(h.listeners[1].tokens.size(), 1U);
}

TEST(SchedulerState, AStepErrorWithAnOldPlanEpochConcernsNobody) {
  SchedulerHarness h(small_limits());
  h.add(1, 3, 10);
  h.device().failing.insert(1);
  const auto late = h.answer();
  h.send(Cancel{1});
  EXPECT_TRUE(h.send(late).empty());
  EXPECT_EQ(reason_of(h, 1), FinishReason::cancelled);
}

TEST(SchedulerState, AnOutcomeThatClaimsAnotherEpochIsDroppedThoughTheSequenceLives) {
  SchedulerHarness h(small_limits());
  h.add(1, 3, 10);
  auto answer = h.answer();
  auto forged = *answer.result;
  forged.outcomes[0].plan_epoch += 1;
  h.send(StepDone{std::make_shared<const model::StepResult>(forged)});
  EXPECT_TRUE(h.listeners[1].tokens.empty());
  EXPECT_EQ(h.state().find(1)->fed(), 0);
}

TEST(SchedulerState, WhatACancelledSequenceHeldStaysInQuarantineUntilItsPlanCompleted) {
  SchedulerHarness h(small_limits());
  h.add(1, 30, 10);
  EXPECT_EQ(h.state().pages().used(), 2);
  h.send(Cancel{1});
  EXPECT_EQ(h.state().pages().used(), 0);
  EXPECT_EQ(h.state().pages().quarantined(), 2);
  EXPECT_EQ(h.state().slots().quarantined(), 1);
  h.add(2, 3, 4);
  EXPECT_TRUE(h.plans().size() == 1);  // the cancelled sequence's plan still runs
  h.finish_step();
  EXPECT_EQ(h.state().pages().quarantined(), 0);
  EXPECT_EQ(h.state().slots().quarantined(), 0);
  EXPECT_TRUE(h.listeners[1].tokens.empty());
  h.run();
  EXPECT_EQ(h.listeners[2].tokens.size(), 4U);
}

TEST(SchedulerState, ACancelThatOvertookItsRegistrationIsKeptUntilThen) {
  SchedulerHarness h(small_limits());
  h.send(Cancel{1});
  EXPECT_EQ(h.state().kept_cancels(), 1U);
  h.add(1, 3, 4);
  EXPECT_EQ(h.state().kept_cancels(), 0U);
  EXPECT_TRUE(h.plans().empty());
  EXPECT_FALSE(h.listeners[1].accepted);
  h.send(SequenceGone{1});
  EXPECT_EQ(h.state().records(), 0U);
}

TEST(SchedulerState, ALateCancelOfAFinishedSequenceIsNotKept) {
  SchedulerHarness h(small_limits());
  h.add(1, 3, 1);
  h.run();
  h.send(Cancel{1});
  EXPECT_EQ(h.state().kept_cancels(), 0U);
  EXPECT_EQ(reason_of(h, 1), FinishReason::length);
  h.send(SequenceGone{1});
  EXPECT_EQ(h.state().records(), 0U);
}

TEST(SchedulerState, ACancelledSequenceInTheQueueMakesRoomForTheNext) {
  SchedulerHarness h(small_limits());
  for (model::SequenceId id = 1; id <= 4; ++id) h.add(id, 3, 4);
  h.send(Cancel{3});
  h.add(5, 3, 4);
  EXPECT_TRUE(h.listeners[5].accepted);
  h.run();
  EXPECT_TRUE(h.listeners[3].tokens.empty());
  EXPECT_EQ(h.listeners[5].tokens.size(), 4U);
}

TEST(SchedulerState, ACancelledSequenceIsNotInTheNextPlan) {
  SchedulerHarness h(small_limits());
  h.add(1, 3, 50);
  h.add(2, 3, 50);
  h.finish_step();
  h.send(Cancel{1});
  h.finish_step();
  ASSERT_EQ(h.plans().size(), 1U);
  ASSERT_EQ(h.plans()[0]->feeds.size(), 1U);
  EXPECT_EQ(h.plans()[0]->feeds[0].id, 2U);
}

TEST(SchedulerState, ASequenceWhoseActorDiedGivesEverythingBack) {
  SchedulerHarness h(small_limits());
  h.add(1, 3, 50);
  h.finish_step();
  h.send(SequenceGone{1});
  h.run();
  EXPECT_EQ(h.state().records(), 0U);
  EXPECT_EQ(h.state().pages().free(), 40);
}

TEST(SchedulerState, NoMoreThanThirtyTwoTokensAheadOfTheAcknowledgement) {
  SchedulerHarness h(small_limits());
  h.add(1, 3, 100);
  h.run();
  EXPECT_EQ(h.listeners[1].tokens.size(), 32U);
  h.send(Acknowledge{1, 0, 8});
  h.run();
  EXPECT_EQ(h.listeners[1].tokens.size(), 40U);
  h.send(Acknowledge{1, 7, 40});  // of dropped tokens: stale
  EXPECT_TRUE(h.plans().empty());
  h.send(Acknowledge{1, 0, 5});  // an older word takes nothing back
  EXPECT_TRUE(h.plans().empty());
}

TEST(SchedulerState, APausedSequenceIsFedAgainAfterResume) {
  SchedulerHarness h(small_limits());
  h.add(1, 3, 10);
  h.send(Pause{1, 0});
  h.finish_step();
  EXPECT_EQ(h.listeners[1].tokens.size(), 1U);  // what was in flight counts
  EXPECT_TRUE(h.plans().empty());
  h.send(Resume{1, 0});
  h.run();
  EXPECT_EQ(h.listeners[1].tokens.size(), 10U);
}

TEST(SchedulerState, FinishEndsASequenceAndAStaleOneDoesNot) {
  SchedulerHarness h(small_limits());
  h.add(1, 3, 10);
  h.finish_step();
  h.send(Finish{1, 3, 1});
  EXPECT_FALSE(h.state().find(1)->finished());
  h.send(Finish{1, 0, 1});
  EXPECT_EQ(reason_of(h, 1), FinishReason::stop);
}

TEST(SchedulerState, AStepErrorEndsTheSequenceItNamesAlone) {
  SchedulerHarness h(small_limits());
  h.add(1, 3, 5);
  h.add(2, 3, 5);
  h.finish_step();
  h.device().failing.insert(1);
  h.run();
  EXPECT_EQ(h.listeners[1].failed->what, "injected");
  EXPECT_EQ(reason_of(h, 1), FinishReason::error);
  EXPECT_EQ(h.listeners[2].tokens.size(), 5U);
  EXPECT_EQ(h.state().pages().free(), 40);
}

TEST(SchedulerState, StopTokensEndASequenceAndAreBannedBelowTheMinimum) {
  SchedulerHarness h(small_limits(), [](const auto& fed, const model::Feed& feed) {
    return std::count(feed.bans.begin(), feed.bans.end(), 7) > 0 ? static_cast<model::TokenId>(fed.size())
                                                                 : 7;
  });
  auto r = SchedulerHarness::registration(1, 3, 50);
  r.limits.eos_tokens = {7};
  r.limits.min_tokens = 4;
  h.send(r);
  h.run();
  EXPECT_EQ(h.listeners[1].tokens.size(), 5U);
  EXPECT_EQ(h.listeners[1].tokens.back(), 7);
  EXPECT_EQ(h.listeners[1].end->why, FinishReason::stop);
  EXPECT_FALSE(h.listeners[1].end->asked_for);
}

TEST(SchedulerState, WhatIsNotServedYetIsDeclinedByName) {
  SchedulerHarness h(small_limits());
  h.add(1, 3, 50);
  h.send(Rollback{1, 0, 0, 2});
  h.send(SetMask{1, 0, 0, nullptr});
  h.send(Rollback{1, 9, 0, 2});  // stale
  h.send(CaptureNow{1, 0, 0});
  h.send(CaptureNow{1, 9, 0});
  h.send(ReleasePoints{1, 0});
  ASSERT_EQ(h.listeners[1].declined.size(), 3U);
  EXPECT_EQ(h.listeners[1].declined[2].operation, Operation::capture);
  EXPECT_EQ(h.listeners[1].declined[0].operation, Operation::rollback);
  EXPECT_EQ(h.listeners[1].declined[1].operation, Operation::set_mask);
  EXPECT_EQ(h.listeners[1].declined[0].reason, DeclineReason::Disabled);
}

TEST(SchedulerState, AfterTheLossOfTheDeviceNothingIsPlannedAndNobodyIsQueued) {
  SchedulerHarness h(small_limits());
  h.add(1, 3, 50);
  h.send(EngineLost{{"gone"}});
  h.send(h.answer());
  EXPECT_TRUE(h.plans().empty());
  h.add(2, 3, 50);
  EXPECT_EQ(h.listeners[2].refused->code, "gpu_fault");
}

TEST(SchedulerState, AnAnswerToNoPlanIsReportedAndStopsEverything) {
  for (const int mistake : {0, 1, 2}) {
    SchedulerHarness h(small_limits());
    h.add(1, 3, 50);
    auto result = *h.answer().result;
    if (mistake == 0) result.number = 9;
    if (mistake == 1) result.outcomes.clear();
    if (mistake == 2) result.outcomes[0].id = 3;
    const auto effects = h.send(StepDone{std::make_shared<const model::StepResult>(result)});
    ASSERT_EQ(effects.size(), 1U);
    EXPECT_TRUE(std::holds_alternative<ReportBroken>(effects[0]));
    EXPECT_TRUE(h.plans().empty());
  }
}

TEST(SchedulerState, ASecondPlanInFlightFeedsTheSampleOfTheFirst) {
  auto limits = small_limits();
  limits.max_plans_in_flight = 2;
  SchedulerHarness h(limits);
  h.add(1, 3, 4);
  ASSERT_EQ(h.plans().size(), 2U);
  const auto& feed = h.plans()[1]->feeds.at(0);
  ASSERT_TRUE(feed.from_step_in_flight);
  EXPECT_EQ(feed.from_step_in_flight->step, 1U);
  EXPECT_TRUE(feed.known.empty());
  h.run();
  EXPECT_EQ(h.listeners[1].tokens, (std::vector<model::TokenId>{'c', 'd', 'e', 'f'}));
  EXPECT_EQ(h.state().pages().free(), 40);  // `length` was foreseen: no wasted row
}

TEST(SchedulerState, ASecondPlanWaitsWhereTheNextSampleIsBanned) {
  auto limits = small_limits();
  limits.max_plans_in_flight = 2;
  SchedulerHarness h(limits);
  auto r = SchedulerHarness::registration(1, 3, 4);
  r.limits.eos_tokens = {7};
  r.limits.min_tokens = 2;
  h.send(r);
  EXPECT_EQ(h.plans().size(), 1U);
  h.run();
  EXPECT_EQ(h.listeners[1].tokens.size(), 4U);
}

TEST(SchedulerState, TheCanaryHasASlotAndPagesOfItsOwnWhileNobodyElseHasAny) {
  SchedulerHarness h(small_limits());
  h.send(CanaryWanted{6});
  ASSERT_EQ(h.canaries.size(), 1U);
  EXPECT_EQ(h.canaries[0].pages.size(), 6U);
  EXPECT_EQ(h.state().pages().free(), 34);
  h.add(1, 3, 2);  // comes meanwhile: its plan waits behind the canary, in another slot and other pages
  ASSERT_EQ(h.plans().size(), 1U);
  const auto& feed = h.plans()[0]->feeds[0];
  EXPECT_NE(feed.slot, h.canaries[0].slot);
  for (const model::PageId page : feed.new_pages) {
    EXPECT_EQ(std::count(h.canaries[0].pages.begin(), h.canaries[0].pages.end(), page), 0);
  }
  h.send(CanaryEnded{});
  h.send(CanaryEnded{});
  h.run();
  EXPECT_EQ(h.state().pages().free(), 40);
  EXPECT_EQ(h.state().slots().free(), 2);
}

TEST(SchedulerState, ASequenceThatFoundNoSlotBesideTheCanaryBeginsAfterIt) {
  auto limits = small_limits();
  limits.num_state_slots = limits.max_batch_size = 1;
  SchedulerHarness h(limits);
  h.send(CanaryWanted{6});
  h.add(1, 3, 2);
  EXPECT_TRUE(h.plans().empty());
  h.send(CanaryEnded{});
  h.run();
  EXPECT_EQ(h.listeners[1].tokens.size(), 2U);
}

TEST(SchedulerState, TheCanaryIsSkippedWhileAnybodyIsServedOrNothingCanRun) {
  SchedulerHarness h(small_limits());
  h.send(CanaryWanted{41});  // more pages than there are
  EXPECT_EQ(h.canaries_skipped, 1);
  h.add(1, 3, 2);
  h.send(CanaryWanted{6});
  EXPECT_EQ(h.canaries_skipped, 2);
  h.run();
  h.send(CanaryWanted{6});
  h.send(CanaryWanted{6});  // the first has not ended
  EXPECT_EQ(h.canaries_skipped, 3);
  EXPECT_EQ(h.canaries.size(), 1U);
  h.send(CanaryEnded{});
  h.send(EngineLost{{"gone"}});
  h.send(CanaryWanted{6});
  EXPECT_EQ(h.canaries_skipped, 4);
}

}  // namespace
}  // namespace actors
