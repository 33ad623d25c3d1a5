#include "actors/request/request_state.h"

#include <algorithm>
#include <utility>

namespace actors {

using model::FinishReason;
using model::RequestError;

std::vector<RequestEffect> RequestState::step(const RequestEvent& event) {
  Effects effects;
  if (phase_ == Phase::finished) return effects;  // a last token may race the client's disconnect
  std::visit([&](const auto& e) { on(e, effects); }, event);
  return effects;
}

void RequestState::on(const Prepared& event, Effects& effects) {
  if (phase_ != Phase::preparing) return;
  phase_ = Phase::admitting;
  choices_.resize(event.prompts.size() * static_cast<std::size_t>(request_->n));
  std::int32_t index = 0;
  for (std::size_t p = 0; p < event.prompts.size(); ++p) {
    const auto& prompt = event.prompts[p];
    usage_.prompt_tokens += static_cast<std::int32_t>(prompt.ids->size());
    response_start_.prompt_ids.push_back(*prompt.ids);
    if (prompt.clamped) {
      auto& clamped = response_start_.clamped_max_tokens;
      clamped = std::min(clamped.value_or(prompt.max_tokens), prompt.max_tokens);
    }
    for (std::int32_t i = 0; i < request_->n; ++i) {
      effects.emplace_back(
          SpawnChoice{index++, p, prompt, request_->sampling.seed + static_cast<std::uint64_t>(i)});
    }
  }
}

void RequestState::on(const PrepareFailed& event, Effects& effects) {
  if (phase_ == Phase::preparing) fail(event.error, effects);
}

void RequestState::on(const ChoiceAccepted& event, Effects& effects) {
  auto* choice = running(event.index);
  if (choice == nullptr) return;
  choice->life = Choice::Life::accepted;
  start_when_admitted(effects);
}

void RequestState::on(const ChoiceRefused& event, Effects& effects) {
  auto* choice = running(event.index);
  if (choice == nullptr) return;
  if (phase_ == Phase::admitting) {
    choice->life = Choice::Life::ended;
    stop_running(FinishReason::cancelled, "", effects);
    fail(event.error, effects);
    return;
  }
  on(ChoiceDied{event.index, event.error.what}, effects);
}

void RequestState::on(const ChoiceEnded& event, Effects& effects) {
  auto* choice = running(event.end.index);
  if (choice == nullptr) return;
  usage_.completion_tokens += event.completion_tokens;
  usage_.reasoning_tokens += event.reasoning_tokens;
  if (event.error && !engine_error_) engine_error_ = SendEngineError{*event.error};
  end_choice(*choice, event.end, effects);
  start_when_admitted(effects);
  finish_when_ended(effects);
}

void RequestState::on(const ChoiceDied& event, Effects& effects) {
  ChoiceEnded ended;
  ended.error = model::StepError{event.what};
  ended.end.index = event.index;
  ended.end.reason = model::finish_reason(*ended.error);
  on(ended, effects);
}

void RequestState::on(const RequestTimedOut& event, Effects& effects) {
  if (phase_ == Phase::preparing) {
    // Its prompt is still being encoded; a time-out ends every request in the same way.
    choices_.resize(request_->prompts.size() * static_cast<std::size_t>(request_->n));
    start(effects);
    for (std::size_t i = 0; i < choices_.size(); ++i) {
      ChoiceEnd end;
      end.index = static_cast<std::int32_t>(i);
      end.reason = FinishReason::timeout;
      end.stop_details = event.details;
      end_choice(choices_[i], std::move(end), effects);
    }
    return finish_when_ended(effects);
  }
  stop_running(FinishReason::timeout, event.details, effects);  // each choice flushes its text and ends
}

void RequestState::on(const ClientGone&, Effects& effects) {
  stop_running(FinishReason::cancelled, "", effects);
  const auto running = choices_.empty()
                           ? static_cast<std::ptrdiff_t>(request_->prompts.size()) * request_->n
                           : std::count_if(choices_.begin(), choices_.end(),
                                           [](const Choice& c) { return c.life != Choice::Life::ended; });
  for (std::ptrdiff_t i = 0; i < running; ++i) effects.emplace_back(CountEnd{FinishReason::cancelled});
  close(effects);
}

void RequestState::on(const EngineFailing& event, Effects& effects) {
  if (phase_ != Phase::streaming) {
    stop_running(FinishReason::cancelled, "", effects);
    fail(model::refused_by(event.error), effects);
    return;
  }
  end_running_with(event.error, effects);
}

void RequestState::on(const RequestCrashed& event, Effects& effects) {
  if (phase_ != Phase::streaming)
    start(effects);  // an engine error is a 500, and only start() … finish() can say one
  if (choices_.empty()) choices_.resize(request_->prompts.size() * static_cast<std::size_t>(request_->n));
  end_running_with(model::StepError{event.what}, effects);
}

void RequestState::on(const PauseRequested&, Effects& effects) {
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    if (choices_[i].life != Choice::Life::ended)
      effects.emplace_back(PauseSequence{static_cast<std::int32_t>(i)});
  }
}

void RequestState::on(const ResumeRequested&, Effects& effects) {
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    if (choices_[i].life != Choice::Life::ended)
      effects.emplace_back(ResumeSequence{static_cast<std::int32_t>(i)});
  }
}

RequestState::Choice* RequestState::running(std::int32_t index) {
  const auto place = static_cast<std::size_t>(index);
  if (place >= choices_.size() || choices_[place].life == Choice::Life::ended) return nullptr;
  return &choices_[place];
}

void RequestState::say(RequestEffect effect, Effects& effects) {
  (phase_ == Phase::streaming ? effects : held_).push_back(std::move(effect));
}

void RequestState::start_when_admitted(Effects& effects) {
  if (phase_ != Phase::admitting) return;
  const auto waits = [](const Choice& c) { return c.life == Choice::Life::waiting; };
  if (std::none_of(choices_.begin(), choices_.end(), waits)) start(effects);
}

void RequestState::start(Effects& effects) {
  phase_ = Phase::streaming;
  effects.emplace_back(StartSink{std::move(response_start_)});
  effects.insert(effects.end(), std::make_move_iterator(held_.begin()), std::make_move_iterator(held_.end()));
  held_.clear();
}

void RequestState::end_choice(Choice& choice, ChoiceEnd end, Effects& effects) {
  choice.life = Choice::Life::ended;
  effects.emplace_back(CountEnd{end.reason});
  say(SendChoiceEnd{std::move(end)}, effects);
}

void RequestState::end_running_with(const model::EngineError& error, Effects& effects) {
  if (!engine_error_) engine_error_ = SendEngineError{error};
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    if (choices_[i].life == Choice::Life::ended) continue;
    const auto index = static_cast<std::int32_t>(i);
    effects.emplace_back(StopChoice{index, FinishReason::cancelled, ""});
    ChoiceEnd end;
    end.index = index;
    end.reason = model::finish_reason(error);
    end_choice(choices_[i], std::move(end), effects);
  }
  finish_when_ended(effects);
}

void RequestState::finish_when_ended(Effects& effects) {
  if (phase_ != Phase::streaming) return;
  const auto ended = [](const Choice& c) { return c.life == Choice::Life::ended; };
  if (!std::all_of(choices_.begin(), choices_.end(), ended)) return;
  if (engine_error_) effects.emplace_back(*std::move(engine_error_));
  effects.emplace_back(FinishSink{usage_});
  close(effects);
}

void RequestState::fail(RequestError error, Effects& effects) {
  effects.emplace_back(FailSink{std::move(error)});
  close(effects);
}

void RequestState::stop_running(FinishReason reason, const std::string& details, Effects& effects) {
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    if (choices_[i].life != Choice::Life::ended) {
      effects.emplace_back(StopChoice{static_cast<std::int32_t>(i), reason, details});
    }
  }
}

void RequestState::close(Effects& effects) {
  phase_ = Phase::finished;
  effects.emplace_back(Close{});
}

}  // namespace actors
