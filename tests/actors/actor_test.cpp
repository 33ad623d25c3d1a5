/// The shells on CAF's test coordinator: messages one by one, on this thread, with a clock that stands still.
#include <gtest/gtest.h>

#include <caf/scheduler/test_coordinator.hpp>

#include "actors/encoder/encoder_actor.h"
#include "actors/gpu_stream/gpu_stream_actor.h"
#include "actors/health/health_actor.h"
#include "actors/request/request_actor.h"
#include "actors/scheduler/scheduler_actor.h"
#include "actors/sequence/sequence_actor.h"
#include "tests/actors/fake_device.h"
#include "tests/actors/fakes.h"

namespace actors {
namespace {

using testing::Heard;

struct Config : caf::actor_system_config {
  Config() {
    set("scheduler.policy", caf::atom("testing"));
    set("logger.console", caf::atom("none"));
  }
};

/// A scheduler's stand-in that keeps the order of what arrived.
struct SchedulerLog {
  std::vector<std::string> said;
  SequenceHandle registered;  ///< who did last
  std::optional<Rollback> rollback;
};
SchedulerHandle::behavior_type scheduler_recorder(SchedulerHandle::pointer self,
                                                  std::shared_ptr<SchedulerLog> log) {
  const auto note = [log](const char* name) {
    return [log, name](const auto&) { log->said.emplace_back(name); };
  };
  return {
      [f = note("attach")](const AttachGpuStream& m) { f(m); },
      [f = note("register"), self, log](const Register& m) {
        f(m);
        log->registered = caf::actor_cast<SequenceHandle>(self->current_sender());
      },
      [f = note("acknowledge")](const Acknowledge& m) { f(m); },
      [f = note("finish")](const Finish& m) { f(m); },
      [f = note("cancel")](const Cancel& m) { f(m); },
      [f = note("pause")](const Pause& m) { f(m); },
      [f = note("resume")](const Resume& m) { f(m); },
      [f = note("rollback"), log](const Rollback& m) {
        f(m);
        log->rollback = m;
      },
      [f = note("set_mask")](const SetMask& m) { f(m); },
      [f = note("capture")](const CaptureNow& m) { f(m); },
      [f = note("release points")](const ReleasePoints& m) { f(m); },
      [f = note("step_done")](const StepDone& m) { f(m); },
      [f = note("lost")](const EngineLost& m) { f(m); },
      [f = note("canary wanted")](const CanaryWanted& m) { f(m); },
      [f = note("canary ended")](const CanaryEnded& m) { f(m); },
  };
}
HealthHandle::behavior_type health_recorder(HealthHandle::pointer, std::shared_ptr<SchedulerLog> log) {
  const auto note = [log](const char* name) {
    return [log, name](const auto&) { log->said.emplace_back(name); };
  };
  return {
      [f = note("up")](const EngineUp& m) { f(m); },
      [f = note("load failed")](const LoadFailed& m) { f(m); },
      [f = note("lost")](const EngineLost& m) { f(m); },
      [f = note("submit")](const Submit& m) { f(m); },
      [f = note("gone")](const TicketGone& m) { f(m); },
      [f = note("paused")](const TicketPaused& m) { f(m); },
      [f = note("resumed")](const TicketResumed& m) { f(m); },
      [f = note("drain")](const Drain& m) { f(m); },
      [f = note("tick")](const HealthTick& m) { f(m); },
      [f = note("encode")](const EncodeJob& m) { f(m); },
      [f = note("canary time")](const CanaryTime& m) { f(m); },
      [f = note("canary ended")](const CanaryEnded& m) { f(m); },
  };
}

class ActorTest : public ::testing::Test {
 protected:
  ActorTest() : coordinator(dynamic_cast<caf::scheduler::test_coordinator&>(actors.scheduler())) {}
  ~ActorTest() override { run(); }

  void run() {
    for (int i = 0; i < 100'000 && coordinator.try_run_once(); ++i) {
    }
  }

  Config config;
  caf::actor_system actors{config};
  caf::scheduler::test_coordinator& coordinator;
  std::shared_ptr<SchedulerLog> scheduler_log = std::make_shared<SchedulerLog>();
  std::shared_ptr<SchedulerLog> health_log = std::make_shared<SchedulerLog>();
  std::shared_ptr<Metrics> metrics = std::make_shared<Metrics>("m");
};

/// Scheduler, GPU stream (not detached here) and requests, with a device that a test steps.
class PipelineTest : public ActorTest {
 protected:
  PipelineTest() {
    health = actors.spawn(health_recorder, health_log);
    scheduler = actors.spawn(scheduler_actor, scheduler_limits(served->plan, 4), metrics, health, nullptr);
    encoder = actors.spawn(encoder_actor, nullptr);
    gpu_stream = caf::actor_cast<GpuStreamHandle>(actors.spawn(
        gpu_stream_actor,
        GpuStreamSettings{
            [this](HealthWord&) -> model::Result<std::unique_ptr<model::StepExecutor>, model::LoadError> {
              return std::unique_ptr<model::StepExecutor>(
                  std::make_unique<testing::FakeExecutor>(control, 16, testing::next_letter));
            },
            &word, std::make_shared<ProgressProbe>(), scheduler, health,
            derive_canary(served->plan, std::nullopt), nullptr}));
    run();
  }
  ~PipelineTest() override {
    for (const auto& request : requests) caf::anon_send_exit(request, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(scheduler, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(encoder, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(gpu_stream, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(health, caf::exit_reason::user_shutdown);
    requests.clear();
    run();
    scheduler = SchedulerHandle();
    encoder = EncoderHandle();
    gpu_stream = GpuStreamHandle();
    health = HealthHandle();
    EXPECT_EQ(control->breaches, std::vector<std::string>{});
  }
  std::shared_ptr<Heard> submit(GenerateRequest request) {
    auto heard = std::make_shared<Heard>();
    RequestSettings settings{{served, scheduler, encoder, metrics, ids, false},
                             std::make_shared<const GenerateRequest>(std::move(request)),
                             std::make_shared<testing::RecordingSink>(heard),
                             std::chrono::steady_clock::now()};
    requests.push_back(actors.spawn(request_actor, std::move(settings)));
    return heard;
  }
  bool metric(const std::string& line) { return metrics->text().find(line + "\n") != std::string::npos; }

  HealthWord word;
  std::shared_ptr<ServedModel> served = testing::small_model();
  std::shared_ptr<testing::ExecutorControl> control = std::make_shared<testing::ExecutorControl>();
  std::shared_ptr<SequenceIds> ids = std::make_shared<SequenceIds>(1);
  HealthHandle health;
  SchedulerHandle scheduler;
  EncoderHandle encoder;
  GpuStreamHandle gpu_stream;
  std::vector<RequestHandle> requests;
};

TEST_F(PipelineTest, TheGpuStreamRunsTheCanaryThenSaysThatItIsUp) {
  EXPECT_EQ(health_log->said, std::vector<std::string>{"up"});
  EXPECT_EQ(word.view().stage, "canary");
  EXPECT_EQ(control->steps, 0U);  // the canary is not a step of anybody
}

TEST_F(PipelineTest, ARequestRunsToItsEnd) {
  const auto heard = submit(testing::text_request("a", 3));
  run();
  EXPECT_EQ(heard->copy().calls,
            (std::vector<std::string>{"start", "delta 0", "delta 0", "delta 0", "end 0", "finish"}));
  EXPECT_EQ(heard->copy().choices.at(0).text, "bcd");
  EXPECT_EQ(control->steps, 3U);
}

TEST_F(PipelineTest, AClientThatLeavesCancelsBeforeItsRequestBegan) {
  const auto heard = submit(testing::text_request("a", 3));
  caf::anon_send<caf::message_priority::high>(requests[0], ClientGone{});
  run();
  EXPECT_TRUE(heard->copy().calls.empty());
  EXPECT_EQ(control->steps, 0U);
  EXPECT_TRUE(metric(R"(vllm:request_success_total{finished_reason="abort",model_name="m"} 1)"));
}

TEST_F(PipelineTest, AClientThatLeavesCostsAtMostTheStepInFlight) {
  const auto heard = submit(testing::text_request("a", 100));
  while (control->steps < 2 && coordinator.try_run_once()) {
  }
  caf::anon_send<caf::message_priority::high>(requests[0], ClientGone{});
  run();
  EXPECT_LE(control->steps, 4U);
  EXPECT_TRUE(metric(R"(vllm:num_requests_running{model_name="m"} 0)"));
  EXPECT_TRUE(metric(R"(vllm:kv_cache_usage_perc{model_name="m"} 0)"));
}

TEST_F(PipelineTest, ASequenceActorThatDiesIsAnEngineErrorAndGivesItsPagesBack) {
  const auto heard = submit(testing::text_request("a", 100));
  while (control->steps < 2 && coordinator.try_run_once()) {
  }
  caf::anon_send_exit(requests[0], caf::exit_reason::kill);  // one_for_all with its request
  run();
  EXPECT_TRUE(metric(R"(vllm:num_requests_running{model_name="m"} 0)"));
  EXPECT_TRUE(metric(R"(vllm:kv_cache_usage_perc{model_name="m"} 0)"));
}

TEST_F(PipelineTest, ALostDeviceIsToldToHealthAndNothingMoreRuns) {
  control->fatal = true;
  const auto heard = submit(testing::text_request("a", 3));
  run();
  EXPECT_EQ(health_log->said, (std::vector<std::string>{"up", "lost"}));
  EXPECT_EQ(control->steps, 0U);
  caf::anon_send<caf::message_priority::high>(requests[0], EngineFailing{{"gone"}});
  run();
  EXPECT_EQ(heard->copy().error_code, "gpu_fault");
  const auto late = submit(testing::text_request("a", 3));
  run();
  EXPECT_EQ(late->copy().failed->code, "gpu_fault");
}

TEST_F(PipelineTest, ThirtyTwoTokensAheadIsTheMostAStuckSequenceActorSees) {
  auto log = std::make_shared<SchedulerLog>();
  const auto mute = actors.spawn([](SequenceHandle::pointer) -> SequenceHandle::behavior_type {
    return {[](const Accepted&) {},    [](const Refused&) {},     [](const TokensReady&) {},
            [](const StepFailed&) {},  [](const Declined&) {},    [](const Captured&) {},
            [](const RolledBack&) {},  [](const HoldExpired&) {}, [](const EndChoice&) {},
            [](const PauseChoice&) {}, [](const ResumeChoice&) {}};
  });
  Register r;
  r.id = 77;
  r.prompt = std::make_shared<const std::vector<model::TokenId>>(std::vector<model::TokenId>{'a'});
  r.limits.max_tokens = 200;
  r.limits.max_seq_len = 256;
  r.sampling = std::make_shared<const model::SamplingParams>();
  caf::send_as(mute, scheduler, r);
  run();
  EXPECT_EQ(control->steps, 32U);
  caf::anon_send_exit(mute, caf::exit_reason::kill);
  run();
  EXPECT_TRUE(metric(R"(vllm:num_requests_running{model_name="m"} 0)"));
}

TEST_F(ActorTest, ASequenceRegistersFirstAndLeavesWithItsRequest) {
  const auto scheduler = actors.spawn(scheduler_recorder, scheduler_log);
  auto heard = std::make_shared<Heard>();
  auto served = testing::small_model();
  const auto encoder = actors.spawn(encoder_actor, nullptr);
  const auto request = actors.spawn(
      request_actor,
      RequestSettings{{served, scheduler, encoder, metrics, std::make_shared<SequenceIds>(1), false},
                      std::make_shared<const GenerateRequest>(testing::text_request("a", 3)),
                      std::make_shared<testing::RecordingSink>(heard),
                      std::chrono::steady_clock::now()});
  run();
  EXPECT_EQ(scheduler_log->said, std::vector<std::string>{"register"});
  EXPECT_TRUE(heard->copy().calls.empty());  // not accepted yet: no start
  caf::anon_send(request, PauseRequested{});
  caf::anon_send(request, ResumeRequested{});
  run();
  caf::anon_send(request, RequestTimedOut{"request timeout"});
  run();
  EXPECT_EQ(scheduler_log->said, (std::vector<std::string>{"register", "pause", "resume", "cancel"}));
  EXPECT_EQ(heard->copy().calls, (std::vector<std::string>{"start", "end 0", "finish"}));
  scheduler_log->registered = nullptr;
  caf::anon_send_exit(scheduler, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(encoder, caf::exit_reason::user_shutdown);
}

/// The supervisor itself, whose device is still being loaded while the test says what happened.
TEST_F(ActorTest, ALostDeviceIsInTheHealthWordInTheHandlerThatHearsOfIt) {
  HealthWord word;
  FatalWatchdog watchdog([](int, const std::string&) {});
  auto control = std::make_shared<testing::ExecutorControl>();
  SystemOptions options;
  options.fatal_grace = std::chrono::hours(1);
  const auto health = actors.spawn(
      health_actor,
      HealthSettings{
          testing::small_model(), options,
          [control](HealthWord&) -> model::Result<std::unique_ptr<model::StepExecutor>, model::LoadError> {
            control->load.pass();
            return model::LoadError{{"the test is over"}};
          },
          metrics, &word, &watchdog, std::make_shared<EncodeQueue>(4)});
  run();
  caf::anon_send(health, EngineUp{});
  run();
  auto heard = std::make_shared<Heard>();
  caf::anon_send(health,
                 Submit{1, std::make_shared<const GenerateRequest>(testing::text_request("a", 3)),
                        std::make_shared<testing::RecordingSink>(heard), std::chrono::steady_clock::now()});
  run();
  EXPECT_EQ(word.state(), ProcessState::ready);
  caf::anon_send<caf::message_priority::high>(health, EngineLost{{"gone"}});
  EXPECT_TRUE(coordinator.try_run_once());  // the handler, and nobody else's
  EXPECT_EQ(word.state(), ProcessState::failing);
  EXPECT_EQ(word.view().reason, "gone");
  EXPECT_EQ(heard->copy().error_code, "");
  run();
  EXPECT_EQ(heard->copy().error_code, "gpu_fault");
  EXPECT_EQ(heard->copy().choices.at(0).ends.at(0).reason, model::FinishReason::error);
  control->load.open();
  caf::anon_send_exit(health, caf::exit_reason::user_shutdown);
  run();
}

/// One choice that is streamed and watched, with a scheduler that only listens: the prompt is "a".
class WatchTest : public ActorTest {
 protected:
  WatchTest() {
    served->watchdog.on = true;
    auto asked = testing::text_request("a", 200);
    asked.streams = true;
    request = actors.spawn(
        request_actor,
        RequestSettings{{served, scheduler, encoder, metrics, std::make_shared<SequenceIds>(1), false},
                        std::make_shared<const GenerateRequest>(std::move(asked)),
                        std::make_shared<testing::RecordingSink>(heard),
                        std::chrono::steady_clock::now()});
    run();
    tell(Accepted{});
  }
  ~WatchTest() override {
    scheduler_log->registered = nullptr;
    caf::anon_send_exit(request, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(scheduler, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(encoder, caf::exit_reason::user_shutdown);
  }
  template <class Message>
  void tell(Message message) {
    caf::anon_send(scheduler_log->registered, std::move(message));
    run();
  }
  void say(int times, std::string_view what, model::Epoch epoch = 0) {
    TokensReady ready;
    ready.token_epoch = epoch;
    for (int i = 0; i < times; ++i) {
      for (const char c : what) ready.tokens.push_back({static_cast<unsigned char>(c), 0.0F, {}});
    }
    tell(ready);
  }
  bool said(const std::string& what) const {
    return std::count(scheduler_log->said.begin(), scheduler_log->said.end(), what) > 0;
  }
  std::size_t heard_tokens() const { return heard->copy().choices[0].tokens.size(); }
  bool counted(const std::string& outcome) const {
    return metrics->text().find("atlas_rollbacks_total{model_name=\"m\",outcome=\"" + outcome + "\"} 1") !=
           std::string::npos;
  }

  std::shared_ptr<ServedModel> served = testing::small_model();
  std::shared_ptr<Heard> heard = std::make_shared<Heard>();
  SchedulerHandle scheduler = actors.spawn(scheduler_recorder, scheduler_log);
  EncoderHandle encoder = actors.spawn(encoder_actor, nullptr);
  RequestHandle request;
};

TEST_F(WatchTest, ALoopIsRolledBackAndTheAnswerGoesOn) {
  say(6, "abc ");
  EXPECT_TRUE(said("capture"));
  tell(Captured{1 + 24 - 1, 0, 0});
  say(10, "abc ");
  ASSERT_TRUE(scheduler_log->rollback);
  EXPECT_EQ(scheduler_log->rollback->boundary, 24);
  EXPECT_EQ(scheduler_log->rollback->banned_at, 25);
  EXPECT_EQ(scheduler_log->rollback->banned, 'a');
  EXPECT_EQ(heard_tokens(), 24U);
  tell(RolledBack{24, 1});
  EXPECT_TRUE(said("release points"));
  EXPECT_TRUE(counted("done"));
  say(1, "and", 1);
  EXPECT_EQ(heard->copy().choices[0].text, "abc abc abc abc abc abc and");
}

TEST_F(WatchTest, WhatIsHeldIsSentWhenTheTimerSaysSo) {
  say(6, "abc ");
  tell(Captured{1 + 24 - 1, 0, 0});
  say(1, "abc ");
  EXPECT_EQ(heard_tokens(), 24U);
  coordinator.advance_time(kMaxHoldTime);
  run();
  EXPECT_EQ(heard_tokens(), 28U);
  say(9, "abc ");
  EXPECT_TRUE(said("finish"));
  EXPECT_FALSE(said("rollback"));
  EXPECT_TRUE(counted("already_sent"));
  ASSERT_EQ(heard->copy().choices[0].ends.size(), 1U);
  EXPECT_EQ(heard->copy().choices[0].ends[0].stop_details, "repetition");
}

TEST_F(WatchTest, ADeclinedRollbackIsTheStop) {
  say(6, "abc ");
  tell(Captured{1 + 24 - 1, 0, 0});
  say(10, "abc ");
  tell(Declined{Operation::rollback, DeclineReason::NoSnapshot});
  EXPECT_TRUE(counted("no_snapshot"));
  EXPECT_EQ(heard_tokens(), 64U);
  EXPECT_EQ(heard->copy().choices[0].ends.at(0).reason, model::FinishReason::length);
}

}  // namespace
}  // namespace actors
