#include "actors/actor_drill.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace actors {

std::shared_ptr<ActorDrill> ActorDrill::of(const std::vector<model::FaultOrder>& orders) {
  auto drill = std::make_shared<ActorDrill>();
  for (const model::FaultOrder& order : orders) {
    if (order.kind == model::FaultKind::actor_death) drill->deaths_.push_back(order);
  }
  return drill->deaths_.empty() ? nullptr : drill;
}

void ActorDrill::step_begins() {
  const std::lock_guard lock(mutex_);
  ++step_;
}

void ActorDrill::pass(Role role, model::SequenceId sequence) {
  const std::lock_guard lock(mutex_);
  const auto due = std::find_if(deaths_.begin(), deaths_.end(), [&](const model::FaultOrder& order) {
    return order.role == to_string(role) && step_ >= order.step &&
           (!order.request || *order.request == sequence);
  });
  if (due == deaths_.end()) return;
  deaths_.erase(due);
  throw std::runtime_error("injected: the death of the " + std::string(to_string(role)) + " actor");
}

}  // namespace actors
