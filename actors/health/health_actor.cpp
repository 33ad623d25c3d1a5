#include "actors/health/health_actor.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "actors/encoder/encoder_actor.h"
#include "actors/gpu_stream/gpu_stream_actor.h"
#include "actors/overloaded.h"
#include "actors/scheduler/scheduler_actor.h"

namespace actors {
namespace {

using Self = HealthHandle::stateful_pointer<HealthShell>;
constexpr auto kHigh = caf::message_priority::high;

Metrics::FaultKind kind_of(Fault fault) {
  switch (fault) {
    case Fault::device_lost:
      return Metrics::FaultKind::device_lost;
    case Fault::no_progress:
      return Metrics::FaultKind::no_progress;
    case Fault::canary:
      return Metrics::FaultKind::canary;
    case Fault::actor_death:
      break;
  }
  return Metrics::FaultKind::actor_death;
}

bool is_failure(const caf::error& reason) {
  return reason && reason != caf::exit_reason::normal && reason != caf::exit_reason::user_shutdown;
}

/// A few ticks within the shortest of the limits, and never so many that they cost anything.
Milliseconds tick_of(const SystemOptions& options) {
  const auto shortest = std::min({options.step_deadline, options.fatal_grace, options.drain_timeout});
  return std::clamp(shortest / 4, Milliseconds{1}, Milliseconds{50});
}

template <class Message>
void tell(Self self, Engine::Ticket ticket, Message message) {
  const auto place = self->state.requests.find(ticket);
  if (place != self->state.requests.end()) self->send<kHigh>(place->second.actor, std::move(message));
}

void publish_failing(Self self, const PublishFailing& effect) {
  self->state.settings.word->set_failing(effect.reason);
  self->state.settings.metrics->count_fault(kind_of(effect.fault));
}

void exit_process(Self self, ExitProcess& effect) {
  if (effect.code != model::kExitFatal)
    self->state.settings.word->set_exited();  // after a fault probes read `failing` to the end
  self->state.settings.metrics->set_health(ProcessState::exited);
  self->state.settings.watchdog->exit(effect.code, std::move(effect.why));
}

void perform(Self self, HealthEffect& effect) {
  auto& shell = self->state;
  std::visit(
      overloaded{
          [&](PublishReady&) { shell.settings.word->set_ready(); },
          [&](PublishDraining&) { shell.settings.word->set_draining(); },
          [&](PublishFailing& e) { publish_failing(self, e); },
          [](AcceptRequest&) {},  // by on_submit, which holds what was submitted
          [](RefuseRequest&) {},
          [&](FailRequests& e) {
            for (const auto& [ticket, request] : shell.requests)
              self->send<kHigh>(request.actor, EngineFailing{{e.reason}});
            spdlog::critical("failing: {}", e.reason);  // last: a full stderr holds nobody up
          },
          [&](ExpireRequest& e) { tell(self, e.ticket, RequestTimedOut{std::move(e.details)}); },
          [&](ArmWatchdog& e) { shell.settings.watchdog->arm(e.within, e.code, e.reason); },
          [&](ExitProcess& e) { exit_process(self, e); },
          [&](StartCanary&) { self->send(shell.around.scheduler, CanaryWanted{shell.canary.num_pages()}); },
      },
      effect);
}

void keep_ticking(Self self) {
  auto& shell = self->state;
  if (shell.tick_pending || !shell.health->needs_ticks()) return;
  shell.tick_pending = true;
  self->delayed_send(self, shell.tick, HealthTick{});
}

void wait_for_canary(Self self) {
  const auto period = self->state.settings.options.health_canary;
  if (period > Milliseconds{0}) self->delayed_send(self, period, CanaryTime{});
}

std::vector<HealthEffect> step(Self self, const HealthEvent& event) {
  auto effects = self->state.health->step(event);
  self->state.settings.metrics->set_health(self->state.health->state());
  for (auto& effect : effects) perform(self, effect);
  keep_ticking(self);
  return effects;
}

void spawn_request(Self self, const Submit& submit) {
  auto& shell = self->state;
  auto request =
      self->spawn(request_actor, RequestSettings{shell.around, submit.request, submit.sink, submit.at});
  self->monitor(request);
  shell.tickets.emplace(request.address(), submit.ticket);
  shell.requests.emplace(submit.ticket, HealthShell::LiveRequest{std::move(request), submit.request->id});
}

void on_submit(Self self, const Submit& submit) {
  RequestArrived arrived{submit.ticket, std::nullopt};
  if (submit.request->timeout) arrived.deadline = submit.at + *submit.request->timeout;
  for (const auto& effect : step(self, arrived)) {
    if (std::holds_alternative<AcceptRequest>(effect)) spawn_request(self, submit);
    if (const auto* refused = std::get_if<RefuseRequest>(&effect)) submit.sink->fail(refused->error);
  }
}

void on_tick(Self self) {
  auto& shell = self->state;
  shell.tick_pending = false;
  die_if_ordered(shell.around.drill, Role::health);
  const auto reading = shell.probe->read();
  const auto& sent = shell.settings.options.answers_sent;
  step(self, Tick{self->system().clock().now(), reading.plan_in_flight, reading.plans_done, reading.progress,
                  !sent || sent()});
}

void on_down(Self self, const caf::down_msg& down) {
  auto& shell = self->state;
  const bool failed = is_failure(down.reason);
  if (const auto place = shell.tickets.find(down.source); place != shell.tickets.end()) {
    const auto ticket = place->second;
    shell.tickets.erase(place);
    const auto gone = shell.requests.extract(ticket);
    if (decide(Role::request, failed ? Cause::failure : Cause::normal) == Decision::fail_request) {
      shell.settings.metrics->count_fault(Metrics::FaultKind::actor_death);
      spdlog::error("request {}: its actor failed: {}", gone.empty() ? "" : gone.mapped().id,
                    self->system().render(down.reason));
    }
    step(self, RequestLeft{ticket});
    return;
  }
  const auto role = shell.roles.find(down.source);
  if (role == shell.roles.end()) return;
  if (decide(role->second, failed ? Cause::failure : Cause::normal) != Decision::exit_process) return;
  step(self, CoreActorDied{role->second, "the " + std::string(to_string(role->second)) +
                                             " actor died: " + self->system().render(down.reason)});
}

void stop_others(Self self) {
  auto& shell = self->state;
  self->send_exit(shell.around.scheduler, caf::exit_reason::user_shutdown);
  self->send_exit(shell.around.encoder, caf::exit_reason::user_shutdown);
  self->send_exit(shell.gpu_stream, caf::exit_reason::user_shutdown);
}

/// The process stops in order, not by a fault: everybody is told, and nobody waits for anybody.
void shut_down(Self self) {
  for (const auto& [ticket, request] : self->state.requests)
    self->send_exit(request.actor, caf::exit_reason::user_shutdown);
  stop_others(self);
  self->quit(caf::exit_reason::user_shutdown);
}

template <class Handle>
Handle supervise(Self self, Role role, Handle actor) {
  self->monitor(actor);
  self->state.roles.emplace(actor.address(), role);
  return actor;
}

void start_others(Self self) {
  auto& shell = self->state;
  const auto& settings = shell.settings;
  const auto me = caf::actor_cast<HealthHandle>(self);
  shell.probe = std::make_shared<ProgressProbe>();
  auto& around = shell.around;
  around.served = settings.served;
  around.metrics = settings.metrics;
  around.encode_queue = settings.encode_queue;
  around.sequence_ids = std::make_shared<SequenceIds>(1);
  around.log_requests = settings.options.log_requests;
  around.drill = ActorDrill::of(settings.options.faults);
  shell.canary = derive_canary(settings.served->plan, settings.served->known_answer);
  around.scheduler = supervise(
      self, Role::scheduler,
      self->spawn(scheduler_actor, scheduler_limits(settings.served->plan, settings.options.max_queue),
                  settings.metrics, me, around.drill));
  around.encoder = supervise(self, Role::encoder, self->spawn<caf::detached>(encoder_actor, around.drill));
  shell.gpu_stream =
      supervise(self, Role::gpu_stream,
                caf::actor_cast<GpuStreamHandle>(self->spawn<caf::detached>(
                    gpu_stream_actor, GpuStreamSettings{settings.factory, settings.word, shell.probe,
                                                        around.scheduler, me, shell.canary, around.drill})));
}

/// Nobody supervises the supervisor. What throws here is told to everybody while the actor still can, in the
/// fatal order; then, and whatever else it dies of, the watchdog's thread ends the process.
void guard_own_death(Self self) {
  self->set_exception_handler([self](std::exception_ptr&) -> caf::error {
    auto& shell = self->state;
    PublishFailing failing{"the health actor died", Fault::actor_death};
    publish_failing(self, failing);
    shell.settings.watchdog->arm(shell.settings.options.fatal_grace, model::kExitFatal, failing.reason);
    HealthEffect fail_requests = FailRequests{failing.reason};
    perform(self, fail_requests);
    stop_others(self);  // nobody else will
    return caf::sec::runtime_error;
  });
  self->attach_functor([word = self->state.settings.word, watchdog = self->state.settings.watchdog,
                        grace = self->state.settings.options.fatal_grace](const caf::error& reason) {
    if (!is_failure(reason)) return;
    word->set_failing("the health actor died");
    watchdog->arm(grace, model::kExitFatal, "the health actor died");
  });
}

}  // namespace

HealthHandle::behavior_type health_actor(Self self, HealthSettings settings) {
  auto& shell = self->state;
  shell.health.emplace(HealthLimits{settings.options.step_deadline, settings.options.fatal_grace,
                                    settings.options.drain_timeout});
  shell.tick = tick_of(settings.options);
  shell.settings = std::move(settings);
  self->set_down_handler([self](const caf::down_msg& down) { on_down(self, down); });
  self->set_exit_handler([self](const caf::exit_msg&) { shut_down(self); });
  guard_own_death(self);
  start_others(self);
  keep_ticking(self);
  return {
      [self](const EngineUp& message) {
        step(self, message);
        wait_for_canary(self);
      },
      [self](const LoadFailed& message) { step(self, message); },
      [self](const EngineLost& message) { step(self, message); },
      [self](const Submit& message) { on_submit(self, message); },
      [self](const TicketGone& message) { tell(self, message.ticket, ClientGone{}); },
      [self](const TicketPaused& message) { tell(self, message.ticket, PauseRequested{}); },
      [self](const TicketResumed& message) { tell(self, message.ticket, ResumeRequested{}); },
      [self](const Drain&) { step(self, DrainRequested{self->system().clock().now()}); },
      [self](const HealthTick&) { on_tick(self); },
      [self](const EncodeJob& job) { self->send(self->state.around.encoder, job); },
      [self](const CanaryTime&) {
        step(self, CanaryDue{});
        wait_for_canary(self);
      },
      [self](const CanaryEnded& message) { step(self, message); },
  };
}

}  // namespace actors
