#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <unordered_map>

#include "actors/actor_drill.h"
#include "actors/handles.h"
#include "actors/metrics/registry.h"
#include "actors/scheduler/scheduler_state.h"

namespace actors {

struct SchedulerShell {
  SchedulerShell() = default;
  std::unique_ptr<SchedulerState> scheduler;
  std::shared_ptr<Metrics> metrics;
  HealthHandle health;
  GpuStreamHandle gpu_stream;
  std::shared_ptr<ActorDrill> drill;  ///< null: none
  std::unordered_map<model::SequenceId, SequenceHandle> sequences;
  std::map<caf::actor_addr, model::SequenceId> ids;  ///< who a DOWN message speaks of
  std::chrono::steady_clock::time_point plan_begun;  ///< when forming the newest plan began
};
static_assert(!std::is_aggregate_v<SchedulerShell>);

/// The shell round SchedulerState.
SchedulerHandle::behavior_type scheduler_actor(SchedulerHandle::stateful_pointer<SchedulerShell> self,
                                               SchedulerLimits limits, std::shared_ptr<Metrics> metrics,
                                               HealthHandle health,
                                               std::shared_ptr<ActorDrill> drill = nullptr);

}  // namespace actors
