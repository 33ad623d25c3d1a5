#include "actors/request/request_actor.h"

#include <spdlog/spdlog.h>

#include <exception>
#include <string>
#include <utility>

#include "actors/overloaded.h"
#include "actors/sequence/sequence_actor.h"

namespace actors {
namespace {

using Self = RequestHandle::stateful_pointer<RequestShell>;
using Clock = std::chrono::steady_clock;
constexpr auto kHigh = caf::message_priority::high;

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

std::string text_of(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "unknown exception";
  }
}

bool wants_prompt_logprobs(const GenerateRequest& request) {
  return request.echo && request.sampling.num_logprobs >= 0;
}

/// A request that asks for detection is watched by its own thresholds; else the server's watchdog decides.
std::optional<WatchSettings> watch_settings(const ServedModel& served, const GenerateRequest& request) {
  const auto& asked = request.repetition_detection;
  if (asked ? asked->max_period == 0 : !served.watchdog.on) return std::nullopt;
  WatchSettings watch;
  watch.thresholds = asked.value_or(model::repetition::Thresholds{});
  watch.traits = served.token_traits;
  watch.ladder = {served.watchdog.on, served.watchdog.max_rollbacks, served.watchdog.max_points,
                  request.streams ? Delivery::at_once : Delivery::at_the_end};
  return watch;
}

TextSettings text_settings(const ServedModel& served, const GenerateRequest& request,
                           const SpawnChoice& choice) {
  using Start = model::text::ReasoningSplitter::Start;
  TextSettings text;
  text.index = choice.index;
  text.prompt_tokens = static_cast<std::int32_t>(choice.prompt.ids->size());
  text.tokenizer = served.tokenizer;
  text.skip_special_tokens = request.skip_special_tokens;
  text.stop = request.stop;
  text.include_stop = request.include_stop_str_in_output;
  text.min_tokens = request.min_tokens;
  if (request.echo) text.echo = Echo{choice.prompt.text, choice.prompt.ids, wants_prompt_logprobs(request)};
  text.generates = request.max_tokens != 0;
  if (request.split_reasoning)
    text.reasoning = choice.prompt.in_open_thought ? Start::inside : Start::outside;
  text.watch = watch_settings(served, request);
  return text;
}

Register registration(const ServedModel& served, const GenerateRequest& request, const SpawnChoice& choice,
                      model::SequenceId id) {
  Register registration;
  registration.id = id;
  registration.prompt = choice.prompt.ids;
  registration.limits.max_tokens = choice.prompt.max_tokens;
  registration.limits.min_tokens = request.min_tokens;
  registration.limits.max_seq_len = served.plan.max_seq_len;
  if (!request.ignore_eos) registration.limits.eos_tokens = served.stop_tokens;
  registration.limits.stop_tokens = request.stop_token_ids;
  registration.prompt_logprobs = wants_prompt_logprobs(request);
  auto sampling = request.sampling;
  sampling.seed = choice.seed;
  registration.sampling = std::make_shared<const model::SamplingParams>(std::move(sampling));
  return registration;
}

void spawn_choice(Self self, const SpawnChoice& choice) {
  auto& shell = self->state;
  const auto& around = shell.settings.around;
  const auto& request = *shell.settings.request;
  const auto id = around.sequence_ids->fetch_add(1);
  SequenceSettings settings{registration(*around.served, request, choice, id),
                            text_settings(*around.served, request, choice),
                            shell.outlet,
                            caf::actor_cast<RequestHandle>(self),
                            around.scheduler,
                            around.metrics,
                            around.drill};
  if (around.drill != nullptr) shell.sequences.push_back(id);
  auto sequence = self->spawn(sequence_actor, std::move(settings));
  self->monitor(sequence);
  shell.index.emplace(sequence.address(), choice.index);
  shell.choices.push_back(std::move(sequence));
}

/// Once per process: clients that always ask for more than there is would fill the log.
void tell_of_clamping(const RequestShell& shell, std::int32_t max_tokens) {
  if (shell.settings.around.told_of_clamping->exchange(true)) return;
  spdlog::warn(
      "request {} asks for more tokens than there is room for and gets {} (--overlength clamp); said once, "
      "each answer has x-atlas-max-tokens-clamped",
      shell.settings.request->id, max_tokens);
}

void start_sink(RequestShell& shell, const ResponseStart& start) {
  if (start.clamped_max_tokens) tell_of_clamping(shell, *start.clamped_max_tokens);
  int prompt_tokens = 0;
  for (const auto& ids : start.prompt_ids) prompt_tokens += static_cast<int>(ids.size());
  shell.settings.around.metrics->count_prompt_tokens(prompt_tokens);
  shell.outlet->start(start);
}

void close(Self self) {
  auto& shell = self->state;
  const auto seconds = seconds_between(shell.settings.submitted, Clock::now());
  shell.settings.around.metrics->observe_request(seconds);
  if (shell.settings.around.log_requests) {
    const auto usage = shell.request->usage();
    spdlog::info("request {} ended after {:.3f} s, {} prompt and {} generated tokens",
                 shell.settings.request->id, seconds, usage.prompt_tokens, usage.completion_tokens);
  }
  shell.outlet->close();
  *shell.unwanted = true;
  self->quit();  // the choices monitor this actor and end with it
}

/// A crash may come before the choice was spawned.
template <class Message>
void tell_choice(Self self, std::int32_t index, Message message) {
  const auto place = static_cast<std::size_t>(index);
  const auto& choices = self->state.choices;
  if (place < choices.size()) self->send<kHigh>(choices[place], std::move(message));
}

void perform(Self self, RequestEffect& effect) {
  auto& shell = self->state;
  auto& outlet = *shell.outlet;
  std::visit(overloaded{
                 [&](SpawnChoice& e) { spawn_choice(self, e); },
                 [&](StartSink& e) { start_sink(shell, e.start); },
                 [&](SendChoiceEnd& e) { outlet.end_choice(e.end); },
                 [&](SendEngineError& e) {
                   spdlog::error("request {}: {}", shell.settings.request->id, model::what(e.error));
                   outlet.engine_error(e.error);
                 },
                 [&](FinishSink& e) { outlet.finish(e.usage); },
                 [&](FailSink& e) { outlet.fail(e.error); },
                 [&](StopChoice& e) {
                   tell_choice(self, e.index, EndChoice{e.reason, e.details});
                 },
                 [&](PauseSequence& e) { tell_choice(self, e.index, PauseChoice{}); },
                 [&](ResumeSequence& e) { tell_choice(self, e.index, ResumeChoice{}); },
                 [&](CountEnd& e) { shell.settings.around.metrics->count_end(e.reason); },
                 [&](Close&) { close(self); },
             },
             effect);
}

void on(Self self, const RequestEvent& event) {
  for (auto& effect : self->state.request->step(event)) perform(self, effect);
}

RequestEvent prepared_event(const ServedModel& served, const GenerateRequest& request) {
  auto prepared = prepare(served, request);
  if (!prepared.ok()) return PrepareFailed{std::move(prepared).error()};
  return Prepared{*std::move(prepared)};
}

/// Long texts are prepared on the encoder's thread; what comes of it arrives as a message.
void begin(Self self) {
  auto& shell = self->state;
  if (shell.request->phase() != RequestState::Phase::preparing) return;
  if (text_bytes(*shell.settings.request) <= kInlineTextBytes) {
    on(self, prepared_event(*shell.settings.around.served, *shell.settings.request));
    return;
  }
  auto place = shell.settings.around.encode_queue->enter();
  if (!place) return on(self, PrepareFailed{too_many_texts()});
  EncodeJob job;
  job.run = [served = shell.settings.around.served, request = shell.settings.request,
             requester = caf::actor_cast<RequestHandle>(self), unwanted = shell.unwanted,
             place = *std::move(place)] {
    if (*unwanted) return;
    try {
      const auto tell = [&](const auto& event) { caf::anon_send(requester, event); };
      std::visit(overloaded{
                     [&](const Prepared& e) { tell(e); },
                     [&](const PrepareFailed& e) { tell(e); },
                     [](const auto&) {},
                 },
                 prepared_event(*served, *request));
    } catch (...) {
      caf::anon_send(requester, RequestCrashed{text_of(std::current_exception())});
    }
  };
  self->send(shell.settings.around.encoder, std::move(job));
}

/// At what the choices say of themselves.
void die_if_one_is_named(const RequestShell& shell) {
  for (const model::SequenceId id : shell.sequences)
    die_if_ordered(shell.settings.around.drill, Role::request, id);
}

void on_down(Self self, const caf::down_msg& down) {
  const auto place = self->state.index.find(down.source);
  if (place == self->state.index.end()) return;
  on(self, ChoiceDied{place->second, "a choice's actor failed: " + self->system().render(down.reason)});
}

}  // namespace

RequestHandle::behavior_type request_actor(Self self, RequestSettings settings) {
  self->state.request.emplace(settings.request);
  self->state.outlet =
      std::make_shared<Outlet>(std::move(settings.sink), settings.around.metrics, settings.submitted);
  self->state.settings = std::move(settings);
  self->set_down_handler([self](const caf::down_msg& down) { on_down(self, down); });
  self->set_exit_handler([self](const caf::exit_msg&) { on(self, EngineFailing{{"the server stopped"}}); });
  self->set_exception_handler([self](std::exception_ptr& thrown) -> caf::error {
    try {
      on(self, RequestCrashed{text_of(thrown)});
    } catch (const std::exception& again) {  // the sink itself is what throws: nobody is left to tell
      spdlog::error("request {}: {}", self->state.settings.request->id, again.what());
    }
    return caf::sec::runtime_error;
  });
  self->send(self, BeginRequest{});
  return {
      [self](const BeginRequest&) { begin(self); },
      [self](const Prepared& message) { on(self, message); },
      [self](const PrepareFailed& message) { on(self, message); },
      [self](const RequestCrashed& message) { on(self, message); },
      [self](const ChoiceAccepted& message) {
        on(self, message);
        die_if_one_is_named(self->state);
      },
      [self](const ChoiceRefused& message) { on(self, message); },
      [self](const ChoiceEnded& message) {
        die_if_one_is_named(self->state);
        on(self, message);
      },
      [self](const RequestTimedOut& message) { on(self, message); },
      [self](const ClientGone& message) { on(self, message); },
      [self](const EngineFailing& message) { on(self, message); },
      [self](const PauseRequested& message) { on(self, message); },
      [self](const ResumeRequested& message) { on(self, message); },
  };
}

}  // namespace actors
