#include "actors/engine.h"

namespace actors {
namespace {

std::string text_of(const std::atomic<const std::string*>& place) {
  const auto* text = place.load(std::memory_order_acquire);
  return text == nullptr ? std::string() : *text;
}

}  // namespace

model::RequestError refusal(const HealthView& view) {
  const auto unavailable = [](std::string what, std::string code) {
    return model::RequestError{model::RequestError::Kind::unavailable, std::move(what), "", std::move(code)};
  };
  switch (view.state) {
    case ProcessState::starting:
      return unavailable("The model is still loading.", "model_loading");
    case ProcessState::failing:
      return model::refused_by(model::FatalError{view.reason});
    case ProcessState::ready:
    case ProcessState::draining:
    case ProcessState::exited:
      break;
  }
  return unavailable("The server is shutting down and takes no further requests.", "draining");
}

HealthView HealthWord::view() const {
  HealthView view;
  view.state =
      state_.load(std::memory_order_acquire);  // first: a text is published before the state it belongs to
  if (view.state == ProcessState::starting) {
    view.stage = text_of(stage_);
    view.progress = progress_.load(std::memory_order_relaxed);
  }
  view.reason = text_of(reason_);
  return view;
}

void HealthWord::set_stage(std::string stage) {
  const std::lock_guard lock(writers_);
  progress_.store(0.0, std::memory_order_relaxed);
  texts_.push_back(std::make_unique<const std::string>(std::move(stage)));
  stage_.store(texts_.back().get(), std::memory_order_release);
}

void HealthWord::set_progress(double fraction) { progress_.store(fraction, std::memory_order_relaxed); }

void HealthWord::set_ready() {
  const std::lock_guard lock(writers_);
  if (state() == ProcessState::starting) state_.store(ProcessState::ready, std::memory_order_release);
}

void HealthWord::set_draining() {
  const std::lock_guard lock(writers_);
  if (state() <= ProcessState::ready) state_.store(ProcessState::draining, std::memory_order_release);
}

void HealthWord::set_failing(std::string reason) {
  const std::lock_guard lock(writers_);
  if (state() >= ProcessState::failing) return;
  texts_.push_back(std::make_unique<const std::string>(std::move(reason)));
  reason_.store(texts_.back().get(), std::memory_order_release);
  state_.store(ProcessState::failing, std::memory_order_release);
}

void HealthWord::set_exited() {
  const std::lock_guard lock(writers_);
  state_.store(ProcessState::exited, std::memory_order_release);
}

}  // namespace actors
