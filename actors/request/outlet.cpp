#include "actors/request/outlet.h"

#include <utility>

namespace actors {
namespace {

double seconds_between(Outlet::Clock::time_point from, Outlet::Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

void Outlet::delta(ChoiceDelta delta) {
  const std::lock_guard lock(mutex_);
  if (sink_ == nullptr) return;
  if (started_) return say(delta);
  held_.push_back(std::move(delta));
}

void Outlet::start(const ResponseStart& start) {
  const std::lock_guard lock(mutex_);
  if (sink_ == nullptr) return;
  started_ = true;
  sink_->start(start);
  for (const auto& delta : std::exchange(held_, {})) say(delta);
}

void Outlet::end_choice(const ChoiceEnd& end) {
  const std::lock_guard lock(mutex_);
  if (sink_ == nullptr) return;
  choice(end.index).ended = true;
  sink_->end_choice(end);
}

void Outlet::engine_error(const model::EngineError& error) {
  const std::lock_guard lock(mutex_);
  if (sink_ != nullptr) sink_->engine_error(error);
}

void Outlet::finish(const Usage& usage) {
  const std::lock_guard lock(mutex_);
  if (sink_ != nullptr) sink_->finish(usage);
}

void Outlet::fail(const model::RequestError& error) {
  const std::lock_guard lock(mutex_);
  if (sink_ != nullptr) sink_->fail(error);
}

void Outlet::close() {
  std::shared_ptr<ResponseSink> sink;  // what its end says is said without the lock
  const std::lock_guard lock(mutex_);
  sink.swap(sink_);
  held_.clear();
}

Outlet::Choice& Outlet::choice(std::int32_t index) {
  const auto place = static_cast<std::size_t>(index);
  if (choices_.size() <= place) choices_.resize(place + 1);
  return choices_[place];
}

void Outlet::say(const ChoiceDelta& delta) {
  auto& from = choice(delta.index);
  if (from.ended) return;
  measure(from, delta);
  sink_->delta(delta);
}

void Outlet::measure(Choice& choice, const ChoiceDelta& delta) {
  const auto tokens = static_cast<int>(delta.tokens.size()) - delta.echoed;
  if (tokens == 0) return;
  const auto now = Clock::now();
  metrics_->count_generated_tokens(tokens);
  if (!std::exchange(first_token_seen_, true))
    metrics_->observe_first_token(seconds_between(submitted_, now));
  if (choice.last_token) metrics_->observe_inter_token(seconds_between(*choice.last_token, now), tokens);
  choice.last_token = now;
}

}  // namespace actors
