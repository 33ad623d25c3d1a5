#pragma once

#include <memory>

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
};

/// The only thread that touches the device (spawned detached; owns the executor and destroys it there). Loads
/// and warms up, then answers every plan with StepDone, or with EngineLost, after which it executes nothing
/// more.
struct GpuStreamShell {
  GpuStreamShell() = default;
  ~GpuStreamShell();
  GpuStreamSettings settings;
  std::unique_ptr<model::StepExecutor> executor;  ///< null before the load and after a loss
};
static_assert(
    !std::is_aggregate_v<GpuStreamShell>);  // CAF would construct an aggregate from the actor's pointer

/// Its own behaviour takes LoadEngine besides.
using GpuStreamSelf = GpuStreamHandle::extend<caf::reacts_to<LoadEngine>>;
GpuStreamSelf::behavior_type gpu_stream_actor(GpuStreamSelf::stateful_pointer<GpuStreamShell> self,
                                              GpuStreamSettings settings);

/// One token through every layer and the sampler: what is allocated or compiled lazily is there before the
/// first request.
model::StepPlan warm_up_plan();

}  // namespace actors
