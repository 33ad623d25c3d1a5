#include "actors/health/health_state.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "actors/health/fatal_watchdog.h"
#include "actors/overloaded.h"

namespace actors {
namespace {

using namespace std::chrono_literals;
using Words = std::vector<std::string>;

const TimePoint kNow{1h};
const HealthLimits kLimits{100ms, 2'000ms, 500ms};

Words words(const std::vector<HealthEffect>& effects) {
  Words said;
  for (const auto& effect : effects) {
    said.push_back(std::visit(
        overloaded{
            [](const PublishReady&) { return std::string("ready"); },
            [](const PublishDraining&) { return std::string("draining"); },
            [](const PublishFailing& e) { return "failing " + e.reason; },
            [](const AcceptRequest& e) { return "accept " + std::to_string(e.ticket); },
            [](const RefuseRequest& e) { return "refuse " + e.error.code; },
            [](const FailRequests&) { return std::string("fail requests"); },
            [](const ExpireRequest& e) { return "expire " + std::to_string(e.ticket) + " " + e.details; },
            [](const ArmWatchdog& e) { return "arm " + std::to_string(e.within.count()); },
            [](const ExitProcess& e) { return "exit " + std::to_string(e.code); },
            [](const StartCanary&) { return std::string("canary"); },
        },
        effect));
  }
  return said;
}
HealthState in(ProcessState state, std::vector<Engine::Ticket> tickets = {}) {
  HealthState health(kLimits);
  if (state == ProcessState::starting) return health;
  health.step(EngineUp{});
  for (const auto ticket : tickets) health.step(RequestArrived{ticket, std::nullopt});
  if (state == ProcessState::draining) health.step(DrainRequested{kNow});
  if (state == ProcessState::failing) health.step(EngineLost{{"gone"}});
  return health;
}
Tick idle(TimePoint now) { return {now, false, 0, 0}; }

TEST(HealthPolicy, OnlyARequestsFailureIsItsOwn) {
  for (const auto role :
       {Role::health, Role::gpu_stream, Role::scheduler, Role::encoder, Role::request, Role::sequence}) {
    EXPECT_EQ(decide(role, Cause::normal), Decision::forget);
    const bool own = role == Role::request || role == Role::sequence;
    EXPECT_EQ(decide(role, Cause::failure), own ? Decision::fail_request : Decision::exit_process);
  }
}

TEST(HealthState, ReadyIsLoadedAndWarm) {
  auto health = in(ProcessState::starting);
  EXPECT_EQ(words(health.step(RequestArrived{1, {}})), (Words{"refuse model_loading"}));
  EXPECT_EQ(words(health.step(EngineUp{})), (Words{"ready"}));
  EXPECT_EQ(words(health.step(RequestArrived{2, {}})), (Words{"accept 2"}));
}

TEST(HealthState, ALoadErrorExitsWithOneAndEveryProblem) {
  auto health = in(ProcessState::starting);
  const auto effects = health.step(LoadFailed{{"a", "b"}});
  EXPECT_EQ(words(effects), (Words{"exit 1"}));
  EXPECT_EQ(std::get<ExitProcess>(effects[0]).why, "a\nb");
}

TEST(HealthState, TheFatalOrderIsWordWatchdogRequestsExit) {
  auto health = in(ProcessState::ready, {1});
  EXPECT_EQ(words(health.step(EngineLost{{"gone"}})), (Words{"failing gone", "arm 2000", "fail requests"}));
  EXPECT_EQ(words(health.step(RequestArrived{2, {}})), (Words{"refuse gpu_fault"}));
  EXPECT_TRUE(health.step(idle(kNow)).empty());
  health.step(RequestLeft{1});
  EXPECT_TRUE(health.step(idle(kNow + 999ms)).empty());  // probes are answered for a second
  EXPECT_EQ(words(health.step(idle(kNow + 1'000ms))), (Words{"exit 70"}));
  EXPECT_TRUE(health.step(idle(kNow + 5s)).empty());
}

TEST(HealthState, ARequestThatDoesNotEndHoldsTheExitNoLongerThanTheGrace) {
  auto health = in(ProcessState::failing, {1});
  health.step(idle(kNow));
  EXPECT_TRUE(health.step(idle(kNow + 1'999ms)).empty());
  EXPECT_EQ(words(health.step(idle(kNow + 2'000ms))), (Words{"exit 70"}));
}

TEST(HealthState, TheFirstReasonStays) {
  auto health = in(ProcessState::failing);
  EXPECT_TRUE(health.step(EngineLost{{"again"}}).empty());
  EXPECT_TRUE(health.step(CoreActorDied{Role::scheduler, "dead"}).empty());
  EXPECT_TRUE(health.step(EngineUp{}).empty());
  EXPECT_TRUE(health.step(DrainRequested{kNow}).empty());
}

TEST(HealthState, ExitCodesByStateAndCause) {
  struct Case {
    ProcessState state;
    HealthEvent event;
    int code;
  };
  const Case cases[] = {
      {ProcessState::starting, EngineLost{{"lost"}}, 70},  // a sticky device fault is 70 always
      {ProcessState::starting, CoreActorDied{Role::encoder, "dead"}, 1},
      {ProcessState::ready, EngineLost{{"lost"}}, 70},
      {ProcessState::ready, CoreActorDied{Role::scheduler, "dead"}, 70},
      {ProcessState::draining, EngineLost{{"lost"}}, 70},
  };
  for (const auto& c : cases) {
    auto health = in(c.state, {1});
    EXPECT_EQ(words(health.step(c.event)).front().substr(0, 7), "failing");
    health.step(idle(kNow));
    EXPECT_EQ(words(health.step(idle(kNow + 3s))), (Words{"exit " + std::to_string(c.code)}));
  }
}

TEST(HealthState, NoProgressForTheDeadlineIsFatal) {
  auto health = in(ProcessState::ready, {1});
  const auto tick = [&](Milliseconds at, std::uint64_t done, std::uint64_t progress) {
    return words(health.step(Tick{kNow + at, true, done, progress}));
  };
  EXPECT_TRUE(tick(0ms, 5, 10).empty());
  EXPECT_TRUE(tick(99ms, 5, 10).empty());
  EXPECT_TRUE(tick(100ms, 5, 11).empty());  // a layer went by
  EXPECT_TRUE(tick(199ms, 5, 11).empty());
  EXPECT_TRUE(tick(200ms, 6, 11).empty());  // another plan
  EXPECT_TRUE(tick(299ms, 6, 11).empty());
  EXPECT_EQ(tick(300ms, 6, 11).size(), 3U);
}

TEST(HealthState, AnIdleDeviceMakesNoProgressAndThatIsFine) {
  auto health = in(ProcessState::ready, {1});
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(health.step(Tick{kNow + i * 50ms, false, 5, 10}).empty());
  EXPECT_TRUE(health.step(Tick{kNow + 10s, true, 5, 10}).empty());  // it just began
}

TEST(HealthState, DrainWaitsForRunningRequestsAndExitsWithZero) {
  auto health = in(ProcessState::ready, {1, 2});
  EXPECT_EQ(words(health.step(DrainRequested{kNow})), (Words{"draining"}));
  EXPECT_EQ(words(health.step(RequestArrived{3, {}})), (Words{"refuse draining"}));
  EXPECT_TRUE(health.step(DrainRequested{kNow}).empty());
  EXPECT_TRUE(health.step(RequestLeft{1}).empty());
  EXPECT_EQ(words(health.step(RequestLeft{2})), (Words{"exit 0"}));
}

TEST(HealthState, AnIdleProcessDrainsAtOnceAndAStartingOneStops) {
  EXPECT_EQ(words(in(ProcessState::ready).step(DrainRequested{kNow})), (Words{"draining", "exit 0"}));
  EXPECT_EQ(words(in(ProcessState::starting).step(DrainRequested{kNow})), (Words{"exit 0"}));
}

TEST(HealthState, WhatDoesNotEndInTheDrainTimeIsTimedOut) {
  auto health = in(ProcessState::draining, {1, 2});
  EXPECT_TRUE(health.step(idle(kNow + 499ms)).empty());
  EXPECT_EQ(words(health.step(idle(kNow + 500ms))),
            (Words{"expire 1 drain timeout", "expire 2 drain timeout"}));
  health.step(RequestLeft{1});
  EXPECT_TRUE(health.step(idle(kNow + 600ms)).empty());
  EXPECT_EQ(words(health.step(idle(kNow + 2'500ms))), (Words{"exit 0"}));
}

TEST(HealthState, ARequestPastItsDeadlineIsExpiredOnce) {
  auto health = in(ProcessState::ready);
  health.step(RequestArrived{4, kNow + 10ms});
  EXPECT_TRUE(health.step(idle(kNow + 9ms)).empty());
  EXPECT_EQ(words(health.step(idle(kNow + 10ms))), (Words{"expire 4 request timeout"}));
  EXPECT_TRUE(health.step(idle(kNow + 20ms)).empty());
}

TEST(HealthState, AnswersOnTheirWayHoldTheExitNoLongerThanTheGrace) {
  const auto tick = [](HealthState& health, Milliseconds at, bool sent) {
    return words(health.step(Tick{kNow + at, false, 0, 0, sent}));
  };
  auto health = in(ProcessState::failing);
  EXPECT_TRUE(tick(health, 0ms, false).empty());
  EXPECT_TRUE(tick(health, 1'500ms, false).empty());
  EXPECT_EQ(tick(health, 1'501ms, true), (Words{"exit 70"}));
  auto stuck = in(ProcessState::failing);
  tick(stuck, 0ms, false);
  EXPECT_TRUE(tick(stuck, 1'999ms, false).empty());
  EXPECT_EQ(tick(stuck, 2'000ms, false), (Words{"exit 70"}));
}

TEST(HealthState, ACanaryRunsWhenDueAndAWrongOneIsFatal) {
  using Outcome = CanaryEnded::Outcome;
  EXPECT_TRUE(in(ProcessState::starting).step(CanaryDue{}).empty());
  EXPECT_TRUE(in(ProcessState::draining, {1}).step(CanaryDue{}).empty());
  auto health = in(ProcessState::ready);
  EXPECT_EQ(words(health.step(CanaryDue{})), (Words{"canary"}));
  EXPECT_TRUE(health.needs_ticks());              // it may hang
  EXPECT_TRUE(health.step(CanaryDue{}).empty());  // the last one has not ended
  EXPECT_TRUE(health.step(CanaryEnded{Outcome::skipped, ""}).empty());
  EXPECT_FALSE(health.needs_ticks());
  EXPECT_EQ(words(health.step(CanaryDue{})), (Words{"canary"}));
  EXPECT_TRUE(health.step(CanaryEnded{Outcome::passed, ""}).empty());
  health.step(CanaryDue{});
  EXPECT_EQ(words(health.step(CanaryEnded{Outcome::failed, "other tokens"})),
            (Words{"failing canary: other tokens", "arm 2000", "fail requests"}));
  health.step(idle(kNow));
  EXPECT_EQ(words(health.step(idle(kNow + 1s))), (Words{"exit 70"}));
}

TEST(HealthState, AnIdleReadyProcessNeedsNoTicks) {
  EXPECT_TRUE(in(ProcessState::starting).needs_ticks());
  EXPECT_FALSE(in(ProcessState::ready).needs_ticks());
  EXPECT_TRUE(in(ProcessState::ready, {1}).needs_ticks());
  EXPECT_TRUE(in(ProcessState::failing).needs_ticks());
}

TEST(HealthWord, SaysStageProgressAndReason) {
  HealthWord word;
  word.set_stage("loading weights");
  word.set_progress(0.25);
  EXPECT_EQ(word.view().stage, "loading weights");
  EXPECT_EQ(word.view().progress, 0.25);
  word.set_stage("canary");
  EXPECT_EQ(word.view().progress, 0.0);
  word.set_ready();
  EXPECT_EQ(word.state(), ProcessState::ready);
  word.set_failing("first");
  word.set_failing("second");
  word.set_ready();
  word.set_draining();
  EXPECT_EQ(word.state(), ProcessState::failing);
  EXPECT_EQ(word.view().reason, "first");
}

TEST(HealthWord, AFailingViewAlwaysHasItsReason) {
  for (int round = 0; round < 200; ++round) {
    HealthWord word;
    std::thread writer([&] {
      word.set_stage("loading");
      word.set_ready();
      word.set_failing("gone");
    });
    auto view = word.view();
    for (; view.state != ProcessState::failing; view = word.view()) std::this_thread::yield();
    EXPECT_EQ(view.reason, "gone");
    writer.join();
  }
}

TEST(FatalWatchdog, EndsTheProcessOnceAndByItself) {
  std::promise<int> exited;
  FatalWatchdog watchdog(
      [&](int code, const std::string&) { exited.set_value(code); });  // a second call would throw
  watchdog.arm(10ms, 70, "gone");
  watchdog.arm(10ms, 1, "later");
  auto code = exited.get_future();
  ASSERT_EQ(code.wait_for(20s), std::future_status::ready);
  EXPECT_EQ(code.get(), 70);
  watchdog.exit(0, "too late");
}

TEST(FatalWatchdog, AnExitInTimeIsTheOnlyOne) {
  std::promise<int> exited;
  {
    FatalWatchdog watchdog([&](int code, const std::string&) { exited.set_value(code); });
    watchdog.arm(1h, 70, "gone");
    watchdog.exit(70, "in order");
    watchdog.exit(70, "again");
  }
  EXPECT_EQ(exited.get_future().get(), 70);
}

}  // namespace
}  // namespace actors
