#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "actors/health/policy.h"
#include "model/ids.h"
#include "model/plan/fault_drill.h"

namespace actors {

/// Deaths that were ordered (ATLAS_TEST_FAULT=actor_death@role=…): an exception in a handler of that actor's
/// shell, once the step that the order names has begun. Any thread. A server without such orders has none.
class ActorDrill {
 public:
  /// Takes the deaths among the orders; null when there are none.
  static std::shared_ptr<ActorDrill> of(const std::vector<model::FaultOrder>& orders);

  void step_begins();
  /// Throws when this actor's hour has come. `sequence`: whose (or one of whose) it is; 0: none's.
  void pass(Role role, model::SequenceId sequence);

 private:
  std::mutex mutex_;
  std::vector<model::FaultOrder> deaths_;
  model::StepNumber step_ = 0;  ///< plans begun since ready
};

/// What a shell says at the begin of a handler.
inline void die_if_ordered(const std::shared_ptr<ActorDrill>& drill, Role role,
                           model::SequenceId sequence = 0) {
  if (drill != nullptr) drill->pass(role, sequence);
}

}  // namespace actors
