#include "actors/system.h"

#include <gmock/gmock.h>

#include <future>
#include <thread>

#include "actors/encoder/encode_queue.h"
#include "actors/health/policy.h"
#include "actors/request/prepare.h"
#include "tests/actors/fake_device.h"
#include "tests/actors/fakes.h"

namespace actors {
namespace {

using namespace std::chrono_literals;
using testing::ExecutorControl;
using testing::FakeDevice;
using testing::Heard;
using testing::text_request;
using testing::token_request;

// Under TSan every suppressed report inside CAF is symbolised, which makes a message cost milliseconds: the
// same tests, with fewer tokens.
#ifdef __SANITIZE_THREAD__
constexpr std::int32_t kWork = 1;
#else
constexpr std::int32_t kWork = 10;
#endif

/// A whole actor tree on real threads with a fake device. Waits are bounded by futures.
class Server {
 public:
  struct Settings {
    SystemOptions options;
    std::shared_ptr<ServedModel> served = testing::small_model();
    FakeDevice::Sampler sampler = testing::next_letter;
    std::optional<model::LoadError> load_error;
    bool hold_load = false;
  };

  Server() : Server(Settings()) {}
  explicit Server(Settings settings) : control_(std::make_shared<ExecutorControl>()) {
    const auto block_size = settings.served->plan.block_size;
    if (!settings.hold_load) control_->load.open();
    system_ = System::start(
        settings.served, settings.options,
        [control = control_, block_size, settings](
            HealthWord& word) -> model::Result<std::unique_ptr<model::StepExecutor>, model::LoadError> {
          word.set_stage("loading weights");
          word.set_progress(0.5);
          if (settings.hold_load) control->load.pass();
          if (settings.load_error) return *settings.load_error;
          return std::unique_ptr<model::StepExecutor>(
              std::make_unique<testing::FakeExecutor>(control, block_size, settings.sampler));
        },
        [this](int code, std::string why) {
          exit_.set_value({code, std::move(why)});
        });
  }
  ~Server() {
    control_->load.open();
    control_->step.open();
    control_->end.open();
    system_.reset();
    EXPECT_EQ(control_->breaches, std::vector<std::string>{});
  }

  std::shared_ptr<Heard> submit(GenerateRequest request) {
    auto heard = std::make_shared<Heard>();
    last_ticket = system_->engine().submit(std::make_shared<const GenerateRequest>(std::move(request)),
                                           std::make_unique<testing::RecordingSink>(heard));
    return heard;
  }
  Heard::Copy serve(GenerateRequest request) {
    auto heard = submit(std::move(request));
    EXPECT_TRUE(heard->await_end()) << system_->metrics_text();
    return heard->copy();
  }
  /// Bounded: gives up after a minute.
  template <class Condition>
  bool await(Condition condition) {
    const auto until = std::chrono::steady_clock::now() + 60s;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > until) return false;
      std::this_thread::yield();
    }
    return true;
  }
  bool await_ready() { return await_state(ProcessState::ready); }
  bool await_state(ProcessState state) {
    return await([&] { return system_->health().state() == state; });
  }
  bool await_metric(const std::string& line) {
    return await([&] { return system_->metrics_text().find(line + "\n") != std::string::npos; });
  }
  std::pair<int, std::string> exit() {
    if (exited_.wait_for(60s) != std::future_status::ready) return {-1, "no exit"};
    return exited_.get();
  }

  System& system() { return *system_; }
  ExecutorControl& control() { return *control_; }
  Engine::Ticket last_ticket = 0;

 private:
  std::shared_ptr<ExecutorControl> control_;
  std::promise<std::pair<int, std::string>> exit_;
  std::shared_future<std::pair<int, std::string>> exited_{exit_.get_future()};
  std::unique_ptr<System> system_;
};

TEST(System, AStreamOfTokensReachesTheSinkAsText) {
  Server server;
  ASSERT_TRUE(server.await_ready());
  const auto heard = server.serve(text_request("a", 5));
  EXPECT_EQ(heard.choices.at(0).text, "bcdef");
  ASSERT_EQ(heard.choices.at(0).ends.size(), 1U);
  EXPECT_EQ(heard.choices.at(0).ends[0].reason, model::FinishReason::length);
  EXPECT_EQ(heard.calls.front(), "start");
  EXPECT_EQ(heard.calls.back(), "finish");
  EXPECT_EQ(heard.usage->prompt_tokens, 1);
  EXPECT_EQ(heard.usage->completion_tokens, 5);
}

TEST(System, ReadyIsLoadedAndWarmedUpAndNothingIsServedBefore) {
  Server::Settings settings;
  settings.hold_load = true;
  Server server(settings);
  ASSERT_TRUE(server.await([&] { return server.system().health().view().progress == 0.5; }));
  EXPECT_EQ(server.system().health().view().stage, "loading weights");
  const auto refused = server.serve(text_request("a", 1));
  EXPECT_EQ(refused.failed->kind, model::RequestError::Kind::unavailable);
  EXPECT_EQ(refused.failed->code, "model_loading");
  server.control().load.open();
  ASSERT_TRUE(server.await_ready());
  EXPECT_EQ(server.serve(text_request("a", 1)).choices.at(0).text, "b");
}

TEST(System, ALoadErrorExitsWithOneAndSaysEveryProblem) {
  Server::Settings settings;
  settings.load_error =
      model::LoadError{{"a.safetensors: missing tensor x", "a.safetensors: missing tensor y"}};
  Server server(settings);
  EXPECT_EQ(server.exit(), (std::pair<int, std::string>{
                               1, "a.safetensors: missing tensor x\na.safetensors: missing tensor y"}));
  EXPECT_EQ(server.system().health().state(), ProcessState::exited);
}

TEST(System, ManyRequestsAtOnceEachGetTheirOwnTokens) {
  Server::Settings settings;
  settings.sampler = [](const auto& fed, const model::Feed& feed) {
    return static_cast<model::TokenId>('a' + (static_cast<std::size_t>(fed[0]) * 7 + fed.size()) % 26) +
           0 * feed.slot;
  };
  Server server(settings);
  ASSERT_TRUE(server.await_ready());
  std::vector<std::shared_ptr<Heard>> all;
  for (int i = 0; i < 60; ++i) all.push_back(server.submit(token_request({i, 1, 2}, 10 + i)));
  for (int i = 0; i < 60; ++i) {
    ASSERT_TRUE(all[static_cast<std::size_t>(i)]->await_end());
    const auto heard = all[static_cast<std::size_t>(i)]->copy();
    std::string expected;
    for (int t = 0; t < 10 + i; ++t) expected += static_cast<char>('a' + (i * 7 + 3 + t) % 26);
    EXPECT_EQ(heard.choices.at(0).text, expected);
    EXPECT_EQ(heard.usage->completion_tokens, 10 + i);
  }
  EXPECT_TRUE(server.await_metric(R"(vllm:num_requests_running{model_name="fake"} 0)"));
  EXPECT_TRUE(server.await_metric(R"(vllm:kv_cache_usage_perc{model_name="fake"} 0)"));
  EXPECT_TRUE(
      server.await_metric(R"(vllm:request_success_total{finished_reason="length",model_name="fake"} 60)"));
  EXPECT_TRUE(server.await_metric(R"(vllm:prompt_tokens_total{model_name="fake"} 180)"));
}

TEST(System, SeveralPromptsAndChoicesEndOnceEach) {
  Server server;
  ASSERT_TRUE(server.await_ready());
  auto request = text_request("a", 3);
  request.prompts.emplace_back(std::in_place_type<TextPrompt>, "k");
  request.n = 2;
  const auto heard = server.serve(request);
  ASSERT_EQ(heard.choices.size(), 4U);
  for (const auto& [index, choice] : heard.choices) {
    EXPECT_EQ(choice.text, index < 2 ? "bcd" : "lmn");
    EXPECT_EQ(choice.ends.size(), 1U);
  }
  EXPECT_EQ(heard.usage->prompt_tokens, 2);
  EXPECT_EQ(heard.usage->completion_tokens, 12);
  EXPECT_EQ(heard.start->prompt_ids.size(), 2U);
}

TEST(System, AStopStringEndsTextAndCountTogether) {
  Server server;
  ASSERT_TRUE(server.await_ready());
  auto request = text_request("a", 200);
  request.stop = {"fg"};
  const auto heard = server.serve(request);
  EXPECT_EQ(heard.choices.at(0).text, "bcde");
  EXPECT_EQ(heard.choices.at(0).ends.at(0).reason, model::FinishReason::stop);
  EXPECT_EQ(heard.usage->completion_tokens, 6);
  EXPECT_EQ(heard.choices.at(0).tokens.size(), 6U);
  EXPECT_TRUE(server.await_metric(R"(vllm:num_requests_running{model_name="fake"} 0)"));
}

TEST(System, ALongTextIsEncodedAwayAndRefusedByItsLength) {
  Server server;
  ASSERT_TRUE(server.await_ready());
  const auto heard = server.serve(text_request(std::string(kInlineTextBytes + 1, 'x'), 1));
  EXPECT_EQ(heard.failed->code, "context_length_exceeded");
  EXPECT_EQ(heard.calls, std::vector<std::string>{"fail"});
}

TEST(System, EncodeAnswersFromAnotherThread) {
  Server server;
  std::promise<std::pair<std::thread::id, std::size_t>> done;
  server.system().engine().encode(std::make_shared<const Prompt>(TextPrompt{"abc"}), make_unwanted(),
                                  [&](auto encoded) {
                                    done.set_value({std::this_thread::get_id(), encoded->ids.size()});
                                  });
  auto answer = done.get_future();
  ASSERT_EQ(answer.wait_for(60s), std::future_status::ready);
  const auto [thread, size] = answer.get();
  EXPECT_NE(thread, std::this_thread::get_id());
  EXPECT_EQ(size, 3U);
}

TEST(System, TextsBeyondTheQueueAreRefusedAndOneThatNobodyWaitsForIsNotEncoded) {
  Server::Settings settings;
  settings.options.max_queue = 1;  // beside the one in work
  Server server(settings);
  auto& engine = server.system().engine();
  const auto text = std::make_shared<const Prompt>(TextPrompt{"abc"});
  std::promise<void> begun, goes_on;
  engine.encode(text, make_unwanted(), [&](auto) {
    begun.set_value();
    goes_on.get_future().wait_for(60s);
  });
  ASSERT_EQ(begun.get_future().wait_for(60s), std::future_status::ready);
  std::atomic<bool> encoded = false;
  const auto left = make_unwanted();
  engine.encode(text, left, [&](auto) { encoded = true; });
  std::optional<model::RequestError> refused;
  engine.encode(text, make_unwanted(), [&](auto answer) { refused = answer.error(); });
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->kind, model::RequestError::Kind::overloaded);
  *left = true;
  goes_on.set_value();
  const auto served = std::make_shared<std::atomic<bool>>(false);
  EXPECT_TRUE(server.await([&] {
    engine.encode(text, make_unwanted(), [served](const auto& answer) {
      if (answer.ok()) *served = true;
    });
    return served->load();
  }));
  EXPECT_FALSE(encoded);
}

TEST(System, AnExceptionWhileEncodingIsAnsweredAndTheServerGoesOn) {
  Server server;
  ASSERT_TRUE(server.await_ready());
  model::text::ChatInput chat;
  chat.messages_json = "throw";
  std::promise<model::RequestError> done;
  server.system().engine().encode(std::make_shared<const Prompt>(chat), make_unwanted(),
                                  [&](auto encoded) { done.set_value(encoded.error()); });
  auto answer = done.get_future();
  ASSERT_EQ(answer.wait_for(5s), std::future_status::ready);
  const auto error = answer.get();
  EXPECT_EQ(error.kind, model::RequestError::Kind::internal);
  EXPECT_EQ(error.what, "template broke");
  EXPECT_EQ(server.serve(text_request("a", 2)).choices.at(0).text, "bc");
}

TEST(System, AnExceptionInARequestIsItsOwnEngineErrorAndNobodyElseNotices) {
  Server server;
  ASSERT_TRUE(server.await_ready());
  for (const std::size_t padding : {std::size_t{0}, kInlineTextBytes}) {
    GenerateRequest request;
    model::text::ChatInput chat;
    chat.messages_json = "throw";
    chat.tools_json = std::string(padding, ' ');
    request.prompts = {chat};
    const auto heard = server.serve(request);
    EXPECT_EQ(heard.error, "template broke");
    EXPECT_EQ(heard.choices.at(0).ends.at(0).reason, model::FinishReason::error);
    EXPECT_EQ(heard.calls.back(), "finish");
  }
  EXPECT_EQ(server.serve(text_request("a", 2)).choices.at(0).text, "bc");
}

TEST(System, AClientThatLeavesFreesItsPagesAndCountsAsAbort) {
  Server server;
  ASSERT_TRUE(server.await_ready());
  auto heard = server.submit(text_request("a", std::nullopt));
  const auto ticket = server.last_ticket;
  ASSERT_TRUE(heard->await_deltas(3));
  server.system().engine().client_gone(ticket);
  server.system().engine().client_gone(ticket + 1'000);  // unknown: ignored
  EXPECT_TRUE(server.await_metric(R"(vllm:num_requests_running{model_name="fake"} 0)"));
  EXPECT_TRUE(server.await_metric(R"(vllm:kv_cache_usage_perc{model_name="fake"} 0)"));
}

TEST(System, AClientThatLeavesWhileAStepRunsIsCancelledAndHearsNoMore) {
  Server server;
  ASSERT_TRUE(server.await_ready());
  server.control().stop_at_gate = true;
  auto heard = server.submit(text_request("a", 100));
  server.control().step.await_visitor();
  server.system().engine().client_gone(server.last_ticket);
  ASSERT_TRUE(
      server.await_metric(R"(vllm:request_success_total{finished_reason="abort",model_name="fake"} 1)"));
  ASSERT_TRUE(server.await_metric(R"(vllm:num_requests_running{model_name="fake"} 0)"));
  server.control().step.open();
  EXPECT_EQ(server.serve(text_request("k", 2)).choices.at(0).text, "lm");
  for (const auto& call : heard->copy().calls) EXPECT_EQ(call, "start");
}

TEST(System, BeyondTheQueueRequestsAreRefusedBeforeTheyStart) {
  Server::Settings settings;
  settings.options.max_queue = 1;
  settings.served->plan.max_batch_size = settings.served->plan.num_state_slots = 1;
  Server server(settings);
  ASSERT_TRUE(server.await_ready());
  server.control().stop_at_gate = true;
  auto first = server.submit(text_request("a", 2));
  server.control().step.await_visitor();
  auto second = server.submit(text_request("a", 2));
  ASSERT_TRUE(server.await_metric(R"(vllm:num_requests_waiting{model_name="fake"} 1)"));
  const auto third = server.serve(text_request("a", 2));
  EXPECT_EQ(third.failed->kind, model::RequestError::Kind::overloaded);
  EXPECT_EQ(third.calls, std::vector<std::string>{"fail"});
  auto pair = text_request("a", 2);
  pair.n = 2;
  EXPECT_EQ(server.serve(pair).calls, std::vector<std::string>{"fail"});
  server.control().step.open();
  EXPECT_TRUE(first->await_end());
  EXPECT_TRUE(second->await_end());
  EXPECT_EQ(second->copy().choices.at(0).text, "bc");
  EXPECT_TRUE(server.await_metric(R"(vllm:num_requests_waiting{model_name="fake"} 0)"));
}

TEST(System, AStepErrorEndsItsRequestsTruthfullyAndTheServerGoesOn) {
  Server server;
  ASSERT_TRUE(server.await_ready());
  server.control().step_error = true;
  const auto heard = server.serve(text_request("a", 5));
  EXPECT_EQ(heard.choices.at(0).ends.at(0).reason, model::FinishReason::error);
  EXPECT_EQ(heard.error, "injected");
  EXPECT_EQ(heard.error_code, "engine_error");
  EXPECT_EQ(server.serve(text_request("a", 2)).choices.at(0).text, "bc");
  EXPECT_TRUE(server.await_metric(R"(atlas_faults_total{kind="step_error",model_name="fake"} 1)"));
}

TEST(System, APausedRequestIsNotFedAndResumes) {
  Server::Settings settings;
  settings.served->plan.max_seq_len = 4'000;
  settings.served->plan.num_pages = 300;
  Server server(settings);
  ASSERT_TRUE(server.await_ready());
  auto heard = server.submit(text_request("a", 300 * kWork));
  const auto ticket = server.last_ticket;
  ASSERT_TRUE(heard->await_deltas(2));
  server.system().engine().pause(ticket);
  // Paused, the steps stop: two readings with a whole other request between them differ by that request's
  // steps alone.
  const auto steps_of_one = [&] {
    const auto before = server.control().steps.load();
    EXPECT_EQ(server.serve(text_request("a", 3)).choices.at(0).text, "bcd");
    return server.control().steps.load() - before;
  };
  EXPECT_TRUE(server.await([&] { return steps_of_one() == 3; }));
  server.system().engine().resume(ticket);
  ASSERT_TRUE(heard->await_end());
  EXPECT_EQ(heard->copy().usage->completion_tokens, 300 * kWork);
}

TEST(System, ARequestPastItsTimeoutEndsAsTimeoutWithItsText) {
  Server server;
  ASSERT_TRUE(server.await_ready());
  server.control().stop_at_gate = true;
  auto request = text_request("a", 100);
  request.timeout = 20ms;
  const auto heard = server.serve(request);
  EXPECT_EQ(heard.choices.at(0).ends.at(0).reason, model::FinishReason::timeout);
  EXPECT_EQ(heard.choices.at(0).ends.at(0).stop_details, "request timeout");
  EXPECT_EQ(heard.calls.back(), "finish");
}

TEST(System, DrainLetsRunningRequestsFinishRefusesNewOnesAndExitsWithZero) {
  Server server;
  ASSERT_TRUE(server.await_ready());
  server.control().stop_at_gate = true;
  auto running = server.submit(text_request("a", 20));
  server.control().step.await_visitor();
  server.system().drain();
  ASSERT_TRUE(server.await_state(ProcessState::draining));
  EXPECT_EQ(server.serve(text_request("a", 1)).failed->code, "draining");
  server.control().step.open();
  EXPECT_EQ(server.exit().first, 0);
  ASSERT_TRUE(running->await_end());
  EXPECT_EQ(running->copy().choices.at(0).tokens.size(), 20U);
  EXPECT_EQ(server.system().health().state(), ProcessState::exited);
}

TEST(System, WhatDoesNotFinishInTheDrainTimeEndsAsTimeout) {
  Server::Settings settings;
  settings.options.drain_timeout = 20ms;
  Server server(settings);
  ASSERT_TRUE(server.await_ready());
  server.control().stop_at_gate = true;
  auto running = server.submit(text_request("a", 20));
  server.control().step.await_visitor();
  server.system().drain();
  EXPECT_EQ(server.exit().first, 0);
  ASSERT_TRUE(running->await_end());
  EXPECT_EQ(running->copy().choices.at(0).ends.at(0).reason, model::FinishReason::timeout);
}

TEST(System, ALostDeviceFailsTheWordThenTheRequestsThenTheProcess) {
  Server::Settings settings;
  settings.options.fatal_grace = 100ms;
  Server server(settings);
  ASSERT_TRUE(server.await_ready());
  server.control().stop_at_gate = true;
  auto running = server.submit(text_request("a", 20));
  server.control().step.await_visitor();
  ASSERT_TRUE(
      server.await([&] { return !running->copy().calls.empty(); }));  // admitted, so it has a choice to end
  server.control().fatal = true;
  server.control().step.open();
  ASSERT_TRUE(running->await_end());
  EXPECT_EQ(server.system().health().state(), ProcessState::failing);
  EXPECT_EQ(server.system().health().view().reason, "injected: device lost");
  const auto heard = running->copy();
  EXPECT_EQ(heard.choices.at(0).ends.at(0).reason, model::FinishReason::error);
  EXPECT_EQ(heard.error_code, "gpu_fault");
  EXPECT_EQ(server.serve(text_request("a", 1)).failed->code, "gpu_fault");
  EXPECT_EQ(server.exit(), (std::pair<int, std::string>{70, "injected: device lost"}));
  EXPECT_EQ(server.system().health().state(), ProcessState::failing);  // probes read it to the end
}

TEST(System, ALostDeviceThatHangsWhileItIsGivenUpHoldsNobodyUp) {
  Server::Settings settings;
  settings.options.fatal_grace = 100ms;
  Server server(settings);
  ASSERT_TRUE(server.await_ready());
  server.control().stop_at_end = true;
  server.control().fatal = true;
  auto running = server.submit(text_request("a", 20));
  server.control().end.await_visitor();  // the device's memory and context never come free
  EXPECT_EQ(server.exit().first, 70);
  ASSERT_TRUE(running->await_end());
  const auto heard = running->copy();  // the fault may come before or after the request was admitted
  EXPECT_EQ(heard.failed ? heard.failed->code : heard.error_code, "gpu_fault");
}

TEST(System, AHangIsFatalAfterTheStepDeadline) {
  Server::Settings settings;
  settings.options.step_deadline = 40ms;
  settings.options.fatal_grace = 100ms;
  Server server(settings);
  ASSERT_TRUE(server.await_ready());
  server.control().stop_at_gate = true;
  auto running = server.submit(text_request("a", 20));
  ASSERT_TRUE(running->await_end());
  const auto heard = running->copy();  // the deadline may pass before or after the request was admitted
  if (heard.failed) {
    EXPECT_EQ(heard.failed->code, "gpu_fault");
  } else {
    EXPECT_EQ(heard.choices.at(0).ends.at(0).reason, model::FinishReason::error);
  }
  const auto [code, why] = server.exit();
  EXPECT_EQ(code, 70);
  EXPECT_NE(why.find("no progress"), std::string::npos);
}

model::FaultOrder death_of(Role role) {
  model::FaultOrder order;
  order.kind = model::FaultKind::actor_death;
  order.role = to_string(role);
  return order;
}

TEST(System, TheDeathOfACoreActorTellsEverybodyAndEndsTheProcess) {
  for (const auto role : {Role::health, Role::gpu_stream, Role::scheduler, Role::encoder}) {
    SCOPED_TRACE(std::string(to_string(role)));
    Server::Settings settings;
    settings.options.fatal_grace = 200ms;
    settings.options.faults = {death_of(role)};
    Server server(settings);
    ASSERT_TRUE(server.await_ready());
    // The first two die of the step itself; the others find the request waiting for it.
    server.control().stop_at_gate = role == Role::health || role == Role::encoder;
    auto running = server.submit(text_request("a", 200));
    if (server.control().stop_at_gate) server.control().step.await_visitor();
    if (role == Role::encoder) {           // nothing but a text to encode makes it move
      std::promise<std::string> answered;  // its text's client is told as well
      server.system().engine().encode(
          std::make_shared<const Prompt>(TextPrompt{"a"}), std::make_shared<const std::atomic<bool>>(false),
          [&answered](auto encoded) { answered.set_value(encoded.ok() ? "" : encoded.error().code); });
      auto code = answered.get_future();
      ASSERT_EQ(code.wait_for(60s), std::future_status::ready);
      EXPECT_EQ(code.get(), "gpu_fault");
    }
    ASSERT_TRUE(running->await_end());
    const auto heard = running->copy();
    EXPECT_EQ(heard.failed ? heard.failed->code : heard.error_code, "gpu_fault");
    EXPECT_EQ(server.system().health().state(), ProcessState::failing);
    const auto [code, why] = server.exit();
    EXPECT_EQ(code, 70);
    EXPECT_NE(why.find(std::string(to_string(role)) + " actor died"), std::string::npos) << why;
  }
}

TEST(System, TheDeathOfAChoicesActorIsItsRequestsAlone) {
  for (const auto role : {Role::request, Role::sequence}) {
    SCOPED_TRACE(std::string(to_string(role)));
    Server::Settings settings;
    settings.options.faults = {death_of(role)};
    settings.options.faults[0].request = 2;
    Server server(settings);
    ASSERT_TRUE(server.await_ready());
    EXPECT_EQ(server.serve(text_request("a", 3)).choices.at(0).text, "bcd");
    const auto heard = server.serve(text_request("a", 20));
    ASSERT_EQ(heard.choices.at(0).ends.size(), 1U);
    EXPECT_EQ(heard.choices.at(0).ends[0].reason, model::FinishReason::error);
    EXPECT_EQ(heard.error_code, "engine_error");
    EXPECT_EQ(server.serve(text_request("a", 3)).choices.at(0).text, "bcd");
    EXPECT_TRUE(server.await_metric(R"(vllm:kv_cache_usage_perc{model_name="fake"} 0)"));
    EXPECT_EQ(server.system().health().state(), ProcessState::ready);
  }
}

TEST(System, ACanaryThatSaysSomethingElseThanAtFirstEndsTheProcess) {
  auto changed = std::make_shared<std::atomic<bool>>(false);
  Server::Settings settings;
  settings.options.health_canary = 1ms;
  settings.options.fatal_grace = 100ms;
  settings.sampler = [changed](const std::vector<model::TokenId>& fed, const model::Feed& feed) {
    return testing::next_letter(fed, feed) + (*changed ? 1 : 0);
  };
  Server server(settings);
  ASSERT_TRUE(server.await_ready());
  const auto runs = [&] { return server.control().steps.load(); };
  ASSERT_TRUE(server.await([&] { return runs() > 30; }));  // several canaries that found nothing
  EXPECT_EQ(server.system().health().state(), ProcessState::ready);
  *changed = true;
  ASSERT_TRUE(server.await_state(ProcessState::failing));
  // The change may come between the two ways of cutting the prompt.
  EXPECT_THAT(server.system().health().view().reason,
              ::testing::AnyOf("canary: other tokens than when the process began",
                               ::testing::StartsWith("canary: the same prompt, cut otherwise, gave other")));
  EXPECT_TRUE(server.await_metric(R"(atlas_faults_total{kind="canary",model_name="fake"} 1)"));
  EXPECT_EQ(server.exit().first, 70);
}

TEST(System, AModelThatDoesNotSayWhatItIsKnownToSayNeverBecomesReady) {
  Server::Settings settings;
  settings.served->known_answer = model::KnownAnswer{{'a', 'b'}, {'c', 'd', 'e'}};
  {
    Server server(settings);
    EXPECT_TRUE(server.await_ready());
  }
  settings.served->known_answer->tokens.back() = 'x';
  Server server(settings);
  EXPECT_EQ(server.exit(),
            (std::pair<int, std::string>{1, "canary: tokens 99 100 101 where canary.json has 99 100 120"}));
}

TEST(System, AFailedCanaryNeverBecomesReady) {
  Server::Settings settings;
  settings.hold_load = true;
  Server server(settings);
  server.control().warm_up_fails = true;
  server.control().load.open();
  EXPECT_EQ(server.exit(), (std::pair<int, std::string>{1, "canary: injected"}));
}

TEST(System, StopsWithRequestsInEveryStateAndTellsEachOne) {
  std::vector<std::shared_ptr<Heard>> all;
  {
    Server server;
    ASSERT_TRUE(server.await_ready());
    for (int i = 0; i < 50; ++i) all.push_back(server.submit(text_request("a", std::nullopt)));
    ASSERT_TRUE(all[0]->await_deltas(1));
  }
  for (const auto& heard : all) EXPECT_TRUE(heard->await_end());
}

TEST(System, TwoHundredStreamsWithRandomDisconnectsGiveEverythingBack) {
  Server::Settings settings;
  settings.served->plan.max_batch_size = settings.served->plan.num_state_slots = 16;
  settings.served->plan.num_pages = 256;
  Server server(settings);
  ASSERT_TRUE(server.await_ready());
  std::vector<std::pair<std::shared_ptr<Heard>, Engine::Ticket>> all;
  for (int i = 0; i < 200; ++i) {
    auto heard =
        server.submit(text_request(std::string(static_cast<std::size_t>(1 + i % 90), 'a'), 4 * kWork));
    all.emplace_back(heard, server.last_ticket);
    if (i % 3 == 0)
      server.system().engine().client_gone(server.last_ticket);  // at once, in the queue, or mid-stream
    if (i % 5 == 0) server.system().engine().client_gone(all[static_cast<std::size_t>(i / 2)].second);
  }
  EXPECT_TRUE(server.await_metric(R"(vllm:num_requests_waiting{model_name="fake"} 0)"));
  EXPECT_TRUE(server.await_metric(R"(vllm:num_requests_running{model_name="fake"} 0)"));
  EXPECT_TRUE(server.await_metric(R"(vllm:kv_cache_usage_perc{model_name="fake"} 0)"));
  EXPECT_EQ(server.serve(text_request("a", 3)).choices.at(0).text, "bcd");
}

}  // namespace
}  // namespace actors
