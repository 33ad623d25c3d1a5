#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "actors/messages.h"
#include "actors/request/prepare.h"
#include "model/runner/step_plan.h"

namespace actors {

/// The prompts are encoded and admitted, or the first error among them.
struct Prepared {
  std::vector<PreparedPrompt> prompts;
};
struct PrepareFailed {
  model::RequestError error;
};
struct ChoiceDied {  ///< its actor failed
  std::int32_t index = 0;
  std::string what;
};
struct RequestCrashed {  ///< this actor's own code threw
  std::string what;
};
struct PauseRequested {};
struct ResumeRequested {};
using RequestEvent =
    std::variant<Prepared, PrepareFailed, ChoiceAccepted, ChoiceRefused, ChoiceEnded, ChoiceDied,
                 RequestTimedOut, ClientGone, EngineFailing, RequestCrashed, PauseRequested, ResumeRequested>;

struct SpawnChoice {
  std::int32_t index = 0;
  std::size_t prompt_index = 0;
  PreparedPrompt prompt;
  std::uint64_t seed = 0;
};
struct StartSink {
  ResponseStart start;
};
struct SendChoiceEnd {
  ChoiceEnd end;
};
struct SendEngineError {
  model::EngineError error;
};
struct FinishSink {
  Usage usage;
};
struct FailSink {
  model::RequestError error;
};
struct StopChoice {
  std::int32_t index = 0;
  model::FinishReason reason = model::FinishReason::cancelled;
  std::string details;
};
struct PauseSequence {
  std::int32_t index = 0;
};
struct ResumeSequence {
  std::int32_t index = 0;
};
struct CountEnd {  ///< one choice ended; metrics
  model::FinishReason reason = model::FinishReason::error;
};
struct Close {};  ///< nothing more will happen: the actor ends, and its choices with it
using RequestEffect = std::variant<SpawnChoice, StartSink, SendChoiceEnd, SendEngineError, FinishSink,
                                   FailSink, StopChoice, PauseSequence, ResumeSequence, CountEnd, Close>;

/// One request's life and all that its sink is told but texts, which its choices hand to the Outlet
/// themselves. Owned by the request actor; pure.
///
///   Preparing ──Prepared──▶ Admitting ──every choice accepted (or ended)──▶ Streaming ──every choice
///   ended──▶ Finished
///       └── error, 429, client gone, device lost, time-out
///       ──┴──────────────────┴───────────────────────────────▲
///
/// The sink hears fail() alone, or start(), exactly one end per choice, an engine error if there was one, and
/// finish(usage). How a choice ends while another one still waits for admission is held until start() (its
/// text by the Outlet), so an error can be an HTTP status. Finished absorbs everything.
class RequestState {
 public:
  enum class Phase { preparing, admitting, streaming, finished };

  explicit RequestState(std::shared_ptr<const GenerateRequest> request) : request_(std::move(request)) {}

  std::vector<RequestEffect> step(const RequestEvent& event);
  Phase phase() const { return phase_; }
  Usage usage() const { return usage_; }

 private:
  using Effects = std::vector<RequestEffect>;
  struct Choice {
    enum class Life { waiting, accepted, ended } life = Life::waiting;
  };

  void on(const Prepared& event, Effects& effects);
  void on(const PrepareFailed& event, Effects& effects);
  void on(const ChoiceAccepted& event, Effects& effects);
  void on(const ChoiceRefused& event, Effects& effects);
  void on(const ChoiceEnded& event, Effects& effects);
  void on(const ChoiceDied& event, Effects& effects);
  void on(const RequestTimedOut& event, Effects& effects);
  void on(const ClientGone& event, Effects& effects);
  void on(const EngineFailing& event, Effects& effects);
  void on(const RequestCrashed& event, Effects& effects);
  void on(const PauseRequested& event, Effects& effects);
  void on(const ResumeRequested& event, Effects& effects);

  Choice* running(std::int32_t index);
  void say(RequestEffect effect, Effects& effects);
  void start_when_admitted(Effects& effects);
  void start(Effects& effects);
  void end_choice(Choice& choice, ChoiceEnd end, Effects& effects);
  void end_running_with(const model::EngineError& error, Effects& effects);
  void finish_when_ended(Effects& effects);
  void fail(model::RequestError error, Effects& effects);
  void stop_running(model::FinishReason reason, const std::string& details, Effects& effects);
  void close(Effects& effects);

  std::shared_ptr<const GenerateRequest> request_;
  Phase phase_ = Phase::preparing;
  std::vector<Choice> choices_;
  ResponseStart response_start_;
  Effects held_;  ///< said before start()
  Usage usage_;
  std::optional<SendEngineError> engine_error_;  ///< the first
};

}  // namespace actors
