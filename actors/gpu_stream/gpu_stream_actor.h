#pragma once

#include <memory>
#include <vector>

#include "actors/actor_drill.h"
#include "actors/gpu_stream/canary.h"
#include "actors/gpu_stream/progress_probe.h"
#include "actors/handles.h"
#include "actors/system.h"

namespace actors {

struct GpuStreamSettings {
  ExecutorFactory factory;
  HealthWord* word = nullptr;  ///< stages of the load; the System's, outlives every actor
  std::shared_ptr<ProgressProbe> probe;
  SchedulerHandle scheduler;
  HealthHandle health;
  Canary canary;
  std::shared_ptr<ActorDrill> drill;  ///< null: none
};

/// The only thread that touches the device (spawned detached; owns the executor and destroys it there). Loads
/// and runs the canary, which warms up as well, then answers every plan with StepDone, or with EngineLost,
/// after which it executes nothing more.
struct GpuStreamShell {
  GpuStreamShell() = default;
  ~GpuStreamShell();
  GpuStreamSettings settings;
  std::unique_ptr<model::StepExecutor> executor;  ///< null before the load and after a loss
  std::vector<model::TokenId> first_tokens;       ///< of the canary: what it says from then on
};
static_assert(
    !std::is_aggregate_v<GpuStreamShell>);  // CAF would construct an aggregate from the actor's pointer

/// Its own behaviour takes LoadEngine besides.
using GpuStreamSelf = GpuStreamHandle::extend<caf::reacts_to<LoadEngine>>;
GpuStreamSelf::behavior_type gpu_stream_actor(GpuStreamSelf::stateful_pointer<GpuStreamShell> self,
                                              GpuStreamSettings settings);

}  // namespace actors
