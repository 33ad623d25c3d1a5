#include "actors/scheduler/scheduler_actor.h"

#include <utility>

#include "actors/overloaded.h"

namespace actors {
namespace {

using Self = SchedulerHandle::stateful_pointer<SchedulerShell>;
using Seconds = std::chrono::duration<double>;

template <class Message>
void tell(Self self, ToSequence<Message>& effect) {
  const auto place = self->state.sequences.find(effect.id);
  if (place != self->state.sequences.end()) self->send(place->second, std::move(effect.message));
}

void perform(Self self, SchedulerEffect& effect) {
  std::visit(
      overloaded{
          [self](SubmitPlan& e) { self->send(self->state.gpu_stream, ExecutePlan{std::move(e.plan)}); },
          [self](SubmitCanary& e) { self->send(self->state.gpu_stream, RunCanary{std::move(e.place)}); },
          [self](SkipCanary&) {
            self->send(self->state.health, CanaryEnded{CanaryEnded::Outcome::skipped, ""});
          },
          [self](ReportBroken& e) {
            self->send<caf::message_priority::high>(self->state.health, EngineLost{{std::move(e.what)}});
          },
          [self](ToSequence<StepFailed>& e) {
            self->state.metrics->count_fault(Metrics::FaultKind::step_error);
            tell(self, e);
          },
          [self](auto& e) { tell(self, e); },
      },
      effect);
}

void on(Self self, const SchedulerEvent& event) {
  auto& shell = self->state;
  const auto now = std::chrono::steady_clock::now();
  for (auto& effect : shell.scheduler->step(event)) {
    if (std::holds_alternative<SubmitPlan>(effect)) shell.plan_begun = now;
    perform(self, effect);
  }
  const auto load = shell.scheduler->load();
  shell.metrics->set_load(
      load.running, load.waiting,
      load.pages_total == 0 ? 0.0 : static_cast<double>(load.pages_used) / load.pages_total);
}

void introduce(Self self, const Register& message) {
  const auto sequence = caf::actor_cast<SequenceHandle>(self->current_sender());
  self->state.sequences.emplace(message.id, sequence);
  self->state.ids.emplace(sequence.address(), message.id);
  self->monitor(sequence);
  on(self, message);
}

void measure(Self self, const StepDone& message) {
  const auto& stats = message.result->stats;
  const Seconds since = std::chrono::steady_clock::now() - self->state.plan_begun;
  self->state.metrics->observe_step(stats);
  self->state.metrics->observe_step_overhead(std::max(0.0, since.count() - stats.seconds));
}

void forget(Self self, const caf::actor_addr& who) {
  const auto place = self->state.ids.find(who);
  if (place == self->state.ids.end()) return;
  const auto id = place->second;
  self->state.ids.erase(place);
  self->state.sequences.erase(id);
  on(self, SequenceGone{id});
}

}  // namespace

SchedulerHandle::behavior_type scheduler_actor(Self self, SchedulerLimits limits,
                                               std::shared_ptr<Metrics> metrics, HealthHandle health,
                                               std::shared_ptr<ActorDrill> drill) {
  self->state.scheduler = std::make_unique<SchedulerState>(limits);
  self->state.metrics = std::move(metrics);
  self->state.health = std::move(health);
  self->state.drill = std::move(drill);
  self->set_down_handler([self](const caf::down_msg& down) { forget(self, down.source); });
  return {
      // Handlers are tried in this order: what comes most often is first.
      [self](const Acknowledge& message) { on(self, message); },
      [self](const AttachGpuStream& message) { self->state.gpu_stream = message.gpu_stream; },
      [self](const Register& message) { introduce(self, message); },
      [self](const Finish& message) { on(self, message); },
      [self](const Cancel& message) { on(self, message); },
      [self](const Pause& message) { on(self, message); },
      [self](const Resume& message) { on(self, message); },
      [self](const Rollback& message) { on(self, message); },
      [self](const SetMask& message) { on(self, message); },
      [self](const CaptureNow& message) { on(self, message); },
      [self](const ReleasePoints& message) { on(self, message); },
      [self](const StepDone& message) {
        die_if_ordered(self->state.drill, Role::scheduler);
        measure(self, message);
        on(self, message);
      },
      [self](const EngineLost& message) { on(self, message); },
      [self](const CanaryWanted& message) { on(self, message); },
      [self](const CanaryEnded& message) { on(self, message); },
  };
}

}  // namespace actors
