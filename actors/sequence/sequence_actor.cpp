#include "actors/sequence/sequence_actor.h"

#include <memory>
#include <utility>

#include "actors/overloaded.h"

namespace actors {
namespace {

using Self = SequenceHandle::stateful_pointer<SequenceShell>;
constexpr auto kHigh = caf::message_priority::high;

void perform(Self self, SequenceEffect& effect) {
  const auto& request = self->state.settings.request;
  const auto& scheduler = self->state.settings.scheduler;
  const auto id = self->state.settings.registration.id;
  const auto index = self->state.settings.text.index;
  std::visit(overloaded{
                 [&](TellAccepted&) { self->send(request, ChoiceAccepted{index}); },
                 [&](TellRefused& e) {
                   self->send(request, ChoiceRefused{index, std::move(e.error)});
                 },
                 [&](SendText& e) { self->state.settings.outlet->delta(std::move(e.delta)); },
                 [&](SendEnd& e) { self->send(request, std::move(e.ended)); },
                 [&](AcknowledgeTokens& e) {
                   self->send(scheduler, Acknowledge{id, e.token_epoch, e.tokens_seen});
                 },
                 [&](FinishSequence& e) {
                   self->send(scheduler, Finish{id, e.token_epoch, e.tokens_seen});
                 },
                 [&](CancelSequence&) { self->send<kHigh>(scheduler, Cancel{id}); },
                 [&](CaptureSequence& e) {
                   self->send(scheduler, CaptureNow{id, e.token_epoch, e.tokens_seen});
                 },
                 [&](ReleaseSequencePoints& e) {
                   self->send(scheduler, ReleasePoints{id, e.token_epoch});
                 },
                 [&](RollBackSequence& e) {
                   self->send(scheduler,
                              Rollback{id, e.token_epoch, e.tokens_seen, e.boundary, e.banned_at, e.banned});
                 },
                 [&](StartHoldTimer& e) { self->delayed_send(self, kMaxHoldTime, HoldExpired{e.hold}); },
                 [&](CountHit&) { self->state.settings.metrics->count_watchdog_hit(); },
                 [&](CountRollback& e) { self->state.settings.metrics->count_rollback(e.declined); },
             },
             effect);
}

/// One list a worker thread, not one a token.
template <class Event>
void on(Self self, const Event& event) {
  thread_local SequenceTextState::Effects effects;
  effects.clear();
  self->state.text->step(event, effects);
  for (auto& effect : effects) perform(self, effect);
}

void leave(Self self) {
  if (!self->state.text->ended()) {
    self->send<kHigh>(self->state.settings.scheduler, Cancel{self->state.settings.registration.id});
  }
  self->quit();
}

}  // namespace

SequenceHandle::behavior_type sequence_actor(Self self, SequenceSettings settings) {
  self->state.settings = std::move(settings);
  self->state.text.emplace(self->state.settings.text);
  self->monitor(self->state.settings.request);
  self->set_down_handler([self](const caf::down_msg&) { leave(self); });
  self->send(self->state.settings.scheduler, self->state.settings.registration);
  return {
      [self](const TokensReady& message) {  // first: handlers are tried in this order
        die_if_ordered(self->state.settings.drill, Role::sequence, self->state.settings.registration.id);
        on(self, message);
      },
      [self](const Accepted& message) { on(self, message); },
      [self](const Refused& message) { on(self, message); },
      [self](const StepFailed& message) { on(self, message); },
      [self](const Declined& message) { on(self, message); },
      [self](const Captured& message) { on(self, message); },
      [self](const RolledBack& message) { on(self, message); },
      [self](const HoldExpired& message) { on(self, message); },
      [self](const EndChoice& message) { on(self, message); },
      [self](const PauseChoice&) {
        const auto& state = self->state;
        self->send(state.settings.scheduler,
                   Pause{state.settings.registration.id, state.text->token_epoch()});
      },
      [self](const ResumeChoice&) {
        const auto& state = self->state;
        self->send(state.settings.scheduler,
                   Resume{state.settings.registration.id, state.text->token_epoch()});
      },
  };
}

}  // namespace actors
