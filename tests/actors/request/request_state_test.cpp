#include "actors/request/request_state.h"

#include <gtest/gtest.h>

#include "actors/overloaded.h"
#include "tests/actors/fakes.h"

namespace actors {
namespace {

using model::FinishReason;
using Phase = RequestState::Phase;

std::shared_ptr<const GenerateRequest> request(std::int32_t n = 1, std::size_t prompts = 1) {
  auto r = testing::token_request({1, 2}, 5);
  r.n = n;
  r.prompts.resize(prompts, r.prompts[0]);
  r.sampling.seed = 100;
  return std::make_shared<const GenerateRequest>(r);
}
Prepared prepared(std::size_t prompts = 1) {
  Prepared p;
  for (std::size_t i = 0; i < prompts; ++i) {
    p.prompts.push_back(
        {std::make_shared<const std::vector<model::TokenId>>(std::vector<model::TokenId>{1, 2}), 5, false,
         false});
  }
  return p;
}
ChoiceEnded ended(std::int32_t index, FinishReason reason, std::int32_t tokens = 3,
                  std::optional<model::StepError> error = std::nullopt) {
  return {{index, reason, {}, ""}, tokens, 1, std::move(error)};
}

/// The effects as words, in order.
std::vector<std::string> words(const std::vector<RequestEffect>& effects) {
  std::vector<std::string> said;
  for (const auto& effect : effects) {
    said.push_back(std::visit(
        overloaded{
            [](const SpawnChoice& e) {
              return "spawn " + std::to_string(e.index) + " seed " + std::to_string(e.seed);
            },
            [](const StartSink&) { return std::string("start"); },
            [](const SendChoiceEnd& e) {
              return "end " + std::to_string(e.end.index) + " " + std::string(to_string(e.end.reason));
            },
            [](const SendEngineError& e) {
              return "engine_error " + model::what(e.error) + " " + std::string(model::verdict(e.error).code);
            },
            [](const FinishSink& e) {
              return "finish " + std::to_string(e.usage.prompt_tokens) + "+" +
                     std::to_string(e.usage.completion_tokens);
            },
            [](const FailSink& e) { return "fail " + e.error.code; },
            [](const StopChoice& e) {
              return "stop " + std::to_string(e.index) + " " + std::string(to_string(e.reason));
            },
            [](const PauseSequence& e) { return "pause " + std::to_string(e.index); },
            [](const ResumeSequence& e) { return "resume " + std::to_string(e.index); },
            [](const CountEnd& e) { return "count " + std::string(to_string(e.reason)); },
            [](const Close&) { return std::string("close"); },
        },
        effect));
  }
  return said;
}
using Words = std::vector<std::string>;

RequestState in(Phase phase, std::int32_t n = 1) {
  RequestState state(request(n));
  if (phase == Phase::preparing) return state;
  state.step(prepared());
  if (phase == Phase::admitting) return state;
  for (std::int32_t i = 0; i < n; ++i) state.step(ChoiceAccepted{i});
  return state;
}

TEST(RequestState, OneChoiceFromPromptToUsage) {
  RequestState state(request());
  EXPECT_EQ(words(state.step(prepared())), (Words{"spawn 0 seed 100"}));
  EXPECT_EQ(state.phase(), Phase::admitting);
  EXPECT_EQ(words(state.step(ChoiceAccepted{0})), (Words{"start"}));
  EXPECT_EQ(words(state.step(ended(0, FinishReason::stop))),
            (Words{"count stop", "end 0 stop", "finish 2+3", "close"}));
  EXPECT_EQ(state.phase(), Phase::finished);
}

TEST(RequestState, ChoicesOfEveryPromptHaveTheSameSeeds) {
  RequestState state(request(2, 2));
  EXPECT_EQ(words(state.step(prepared(2))),
            (Words{"spawn 0 seed 100", "spawn 1 seed 101", "spawn 2 seed 100", "spawn 3 seed 101"}));
}

TEST(RequestState, NothingIsSaidBeforeEveryChoiceWasAccepted) {
  RequestState state(request(2));
  state.step(prepared());
  EXPECT_TRUE(state.step(ChoiceAccepted{0}).empty());
  EXPECT_EQ(words(state.step(ended(0, FinishReason::length))), (Words{"count length"}));
  EXPECT_EQ(words(state.step(ChoiceAccepted{1})), (Words{"start", "end 0 length"}));
  EXPECT_EQ(words(state.step(ended(1, FinishReason::length))),
            (Words{"count length", "end 1 length", "finish 2+6", "close"}));
}

TEST(RequestState, ARefusedChoiceFailsTheRequestAsAnHttpStatus) {
  RequestState state(request(2));
  state.step(prepared());
  state.step(ChoiceAccepted{0});
  model::RequestError full{model::RequestError::Kind::overloaded, "full", "", "rate_limit_exceeded"};
  EXPECT_EQ(words(state.step(ChoiceRefused{1, full})),
            (Words{"stop 0 abort", "fail rate_limit_exceeded", "close"}));
}

TEST(RequestState, APrepareErrorFailsTheRequest) {
  RequestState state(request());
  EXPECT_EQ(words(state.step(
                PrepareFailed{{model::RequestError::Kind::too_long, "", "", "context_length_exceeded"}})),
            (Words{"fail context_length_exceeded", "close"}));
}

TEST(RequestState, AnEngineErrorEndsItsChoiceAndIsToldOnceBeforeFinish) {
  auto state = in(Phase::streaming, 2);
  EXPECT_EQ(words(state.step(ended(0, FinishReason::error, 1, model::StepError{"nan"}))),
            (Words{"count error", "end 0 error"}));
  EXPECT_EQ(words(state.step(ended(1, FinishReason::stop))),
            (Words{"count stop", "end 1 stop", "engine_error nan engine_error", "finish 2+4", "close"}));
}

TEST(RequestState, AnErrorBeforeStartStillOpensTheResponse) {
  auto state = in(Phase::admitting);
  EXPECT_EQ(
      words(state.step(ended(0, FinishReason::error, 0, model::StepError{"nan"}))),
      (Words{"count error", "start", "end 0 error", "engine_error nan engine_error", "finish 2+0", "close"}));
}

TEST(RequestState, ADeadChoiceIsAnEngineError) {
  auto state = in(Phase::streaming);
  EXPECT_EQ(words(state.step(ChoiceDied{0, "died"})),
            (Words{"count error", "end 0 error", "engine_error died engine_error", "finish 2+0", "close"}));
}

TEST(RequestState, ATimeOutLetsEachChoiceEndItself) {
  for (const auto phase : {Phase::admitting, Phase::streaming}) {
    auto state = in(phase, 2);
    EXPECT_EQ(words(state.step(RequestTimedOut{"request timeout"})),
              (Words{"stop 0 timeout", "stop 1 timeout"}));
    state.step(ended(0, FinishReason::timeout));
    EXPECT_EQ(words(state.step(ended(1, FinishReason::timeout))).back(), "close");
  }
  auto state = in(Phase::preparing);
  EXPECT_EQ(words(state.step(RequestTimedOut{""})),
            (Words{"start", "count timeout", "end 0 timeout", "finish 0+0", "close"}));
}

TEST(RequestState, AClientThatLeftIsAnAbortAndHearsNothing) {
  EXPECT_EQ(words(in(Phase::preparing).step(ClientGone{})), (Words{"count abort", "close"}));
  for (const auto phase : {Phase::admitting, Phase::streaming}) {
    EXPECT_EQ(words(in(phase).step(ClientGone{})), (Words{"stop 0 abort", "count abort", "close"}));
  }
  auto state = in(Phase::streaming, 2);
  state.step(ended(0, FinishReason::stop));
  EXPECT_EQ(words(state.step(ClientGone{})), (Words{"stop 1 abort", "count abort", "close"}));
}

TEST(RequestState, ALostDeviceIsAStatusBeforeStartAndAnErrorAfter) {
  EXPECT_EQ(words(in(Phase::preparing).step(EngineFailing{{"gone"}})), (Words{"fail gpu_fault", "close"}));
  EXPECT_EQ(words(in(Phase::admitting).step(EngineFailing{{"gone"}})),
            (Words{"stop 0 abort", "fail gpu_fault", "close"}));
  auto state = in(Phase::streaming, 2);
  state.step(ended(1, FinishReason::stop));
  EXPECT_EQ(words(state.step(EngineFailing{{"gone"}})),
            (Words{"stop 0 abort", "count error", "end 0 error", "engine_error gone gpu_fault", "finish 2+3",
                   "close"}));
}

TEST(RequestState, ItsOwnCrashIsAnEngineErrorInEveryPhase) {
  for (const auto phase : {Phase::preparing, Phase::admitting, Phase::streaming}) {
    const auto said = words(in(phase).step(RequestCrashed{"threw"}));
    EXPECT_EQ(said.back(), "close");
    EXPECT_EQ(std::count(said.begin(), said.end(), "end 0 error"), 1);
    EXPECT_EQ(std::count(said.begin(), said.end(), "engine_error threw engine_error"), 1);
    EXPECT_EQ(std::count(said.begin(), said.end(), "start"), phase == Phase::streaming ? 0 : 1);
  }
}

TEST(RequestState, PauseAndResumeReachTheRunningChoices) {
  auto state = in(Phase::streaming, 2);
  state.step(ended(0, FinishReason::stop));
  EXPECT_EQ(words(state.step(PauseRequested{})), (Words{"pause 1"}));
  EXPECT_EQ(words(state.step(ResumeRequested{})), (Words{"resume 1"}));
  EXPECT_TRUE(in(Phase::preparing).step(PauseRequested{}).empty());
}

TEST(RequestState, ClampedMaxTokensAreToldTheSmallest) {
  RequestState state(request(1, 2));
  auto p = prepared(2);
  p.prompts[0].clamped = p.prompts[1].clamped = true;
  p.prompts[0].max_tokens = 9;
  p.prompts[1].max_tokens = 4;
  state.step(p);
  state.step(ChoiceAccepted{0});
  const auto effects = state.step(ChoiceAccepted{1});
  EXPECT_EQ(std::get<StartSink>(effects.at(0)).start.clamped_max_tokens, 4);
  EXPECT_EQ(std::get<StartSink>(effects.at(0)).start.prompt_ids.size(), 2U);
}

TEST(RequestState, FinishedAbsorbsEverything) {
  auto state = in(Phase::streaming);
  state.step(ClientGone{});
  const RequestEvent events[] = {prepared(),
                                 PrepareFailed{},
                                 ChoiceAccepted{0},
                                 ChoiceRefused{0, {}},
                                 ended(0, FinishReason::stop),
                                 ChoiceDied{0, ""},
                                 RequestTimedOut{},
                                 ClientGone{},
                                 EngineFailing{},
                                 RequestCrashed{},
                                 PauseRequested{},
                                 ResumeRequested{}};
  for (const auto& event : events) EXPECT_TRUE(state.step(event).empty()) << event.index();
}

TEST(RequestState, WordsOfUnknownOrEndedChoicesAreDropped) {
  auto state = in(Phase::streaming, 2);
  state.step(ended(0, FinishReason::stop));
  EXPECT_TRUE(state.step(ended(0, FinishReason::stop)).empty());
  EXPECT_TRUE(state.step(ended(7, FinishReason::stop)).empty());
}

}  // namespace
}  // namespace actors
