#include "actors/health/health_state.h"

#include <algorithm>
#include <utility>

namespace actors {

using model::kExitDone;
using model::kExitFatal;
using model::kExitStart;

std::vector<HealthEffect> HealthState::step(const HealthEvent& event) {
  Effects effects;
  std::visit([&](const auto& e) { on(e, effects); }, event);
  return effects;
}

bool HealthState::needs_ticks() const {
  switch (state_) {
    case ProcessState::starting:  // the canary may hang
    case ProcessState::failing:
      return true;
    case ProcessState::ready:
    case ProcessState::draining:
      return !requests_.empty() || plan_seen_ || canary_runs_;
    case ProcessState::exited:
      break;
  }
  return false;
}

void HealthState::on(const EngineUp&, Effects& effects) {
  if (state_ != ProcessState::starting) return;
  state_ = ProcessState::ready;
  effects.emplace_back(PublishReady{});
}

void HealthState::on(const LoadFailed& event, Effects& effects) {
  if (state_ != ProcessState::starting) return;
  std::string why;
  for (const auto& problem : event.problems) why += (why.empty() ? "" : "\n") + problem;
  exit(kExitStart, std::move(why), effects);
}

void HealthState::on(const EngineLost& event, Effects& effects) {
  fail(Fault::device_lost, event.error.what, kExitFatal, effects);
}

void HealthState::on(const RequestArrived& event, Effects& effects) {
  if (state_ != ProcessState::ready) {
    effects.emplace_back(RefuseRequest{event.ticket, refusal({state_, "", 0.0, reason_})});
    return;
  }
  requests_.emplace(event.ticket, event.deadline);
  if (event.deadline) next_deadline_ = std::min(next_deadline_, *event.deadline);
  effects.emplace_back(AcceptRequest{event.ticket});
}

void HealthState::on(const RequestLeft& event, Effects& effects) {
  requests_.erase(event.ticket);
  if (state_ == ProcessState::draining) exit_when_idle(effects);
}

void HealthState::on(const CoreActorDied& event, Effects& effects) {
  fail(Fault::actor_death, event.what, state_ == ProcessState::starting ? kExitStart : kExitFatal, effects);
}

void HealthState::on(const DrainRequested& event, Effects& effects) {
  if (state_ == ProcessState::starting) {
    exit(kExitDone, "stopped while starting", effects);
    return;
  }
  if (state_ != ProcessState::ready) return;
  state_ = ProcessState::draining;
  drain_until_ = event.now + limits_.drain_timeout;
  effects.emplace_back(PublishDraining{});
  exit_when_idle(effects);
}

void HealthState::on(const Tick& event, Effects& effects) {
  if (state_ == ProcessState::exited) return;
  if (state_ == ProcessState::failing) {
    watch_grace(event, effects);
    return;
  }
  watch_progress(event, effects);
  if (state_ == ProcessState::failing) return;
  watch_deadlines(event, effects);
  watch_drain(event, effects);
}

void HealthState::on(const CanaryDue&, Effects& effects) {
  if (state_ != ProcessState::ready || std::exchange(canary_runs_, true)) return;
  effects.emplace_back(StartCanary{});
}

void HealthState::on(const CanaryEnded& event, Effects& effects) {
  canary_runs_ = false;
  if (event.outcome == CanaryEnded::Outcome::failed)
    fail(Fault::canary, "canary: " + event.what, kExitFatal, effects);
}

void HealthState::fail(Fault fault, const std::string& reason, int code, Effects& effects) {
  if (state_ == ProcessState::failing || state_ == ProcessState::exited) return;  // the first reason stays
  state_ = ProcessState::failing;
  reason_ = reason;
  fatal_code_ = code;
  effects.emplace_back(PublishFailing{reason, fault});
  effects.emplace_back(ArmWatchdog{limits_.fatal_grace, code, reason});
  effects.emplace_back(FailRequests{reason});
}

void HealthState::exit(int code, std::string why, Effects& effects) {
  state_ = ProcessState::exited;
  effects.emplace_back(ExitProcess{code, std::move(why)});
}

void HealthState::exit_when_idle(Effects& effects) {
  if (requests_.empty()) exit(kExitDone, "drained", effects);
}

/// A plan in flight during which nothing moved for the whole deadline is a hang. A tick that sees another
/// plan, or more progress, starts anew.
void HealthState::watch_progress(const Tick& event, Effects& effects) {
  const bool moved =
      !event.plan_in_flight || !plan_seen_ || event.plans_done != plans_done_ || event.progress != progress_;
  plan_seen_ = event.plan_in_flight;
  if (moved) {
    plans_done_ = event.plans_done;
    progress_ = event.progress;
    progress_at_ = event.now;
    return;
  }
  if (event.now - progress_at_ < limits_.step_deadline) return;
  fail(Fault::no_progress,
       "the device made no progress for " + std::to_string(limits_.step_deadline.count()) +
           " ms (--step-deadline)",
       kExitFatal, effects);
}

void HealthState::watch_deadlines(const Tick& event, Effects& effects) {
  if (event.now < next_deadline_) return;
  next_deadline_ = TimePoint::max();
  for (auto& [ticket, deadline] : requests_) {
    if (!deadline) continue;
    if (event.now < *deadline) {
      next_deadline_ = std::min(next_deadline_, *deadline);
      continue;
    }
    deadline.reset();
    effects.emplace_back(ExpireRequest{ticket, "request timeout"});
  }
}

void HealthState::watch_drain(const Tick& event, Effects& effects) {
  if (state_ != ProcessState::draining || event.now < *drain_until_) return;
  if (drain_expired_) {  // told once already, and the grace is over
    exit(kExitDone, "drained; some requests did not end in time", effects);
    return;
  }
  drain_expired_ = true;
  *drain_until_ = event.now + limits_.fatal_grace;
  for (const auto& [ticket, deadline] : requests_)
    effects.emplace_back(ExpireRequest{ticket, "drain timeout"});
}

void HealthState::watch_grace(const Tick& event, Effects& effects) {
  if (!failing_since_) failing_since_ = event.now;
  const auto since = event.now - *failing_since_;
  const auto answers_probes_for = std::min(limits_.fatal_grace, Milliseconds{1'000});
  if (since >= limits_.fatal_grace ||
      (requests_.empty() && event.answers_sent && since >= answers_probes_for)) {
    exit(fatal_code_, reason_, effects);
  }
}

}  // namespace actors
