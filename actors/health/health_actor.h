#pragma once

#include <map>
#include <memory>
#include <optional>
#include <unordered_map>

#include "actors/gpu_stream/canary.h"
#include "actors/gpu_stream/progress_probe.h"
#include "actors/handles.h"
#include "actors/health/fatal_watchdog.h"
#include "actors/health/health_state.h"
#include "actors/request/request_actor.h"
#include "actors/system.h"

namespace actors {

struct HealthSettings {
  std::shared_ptr<const ServedModel> served;
  SystemOptions options;
  ExecutorFactory factory;
  std::shared_ptr<Metrics> metrics;
  HealthWord* word = nullptr;  ///< the System's, as is the watchdog: both outlive every actor
  FatalWatchdog* watchdog = nullptr;
  std::shared_ptr<EncodeQueue> encode_queue;
};
struct HealthShell {
  HealthShell() = default;
  HealthSettings settings;
  std::optional<HealthState> health;
  std::shared_ptr<ProgressProbe> probe;
  RequestSurroundings around;
  Canary canary;
  GpuStreamHandle gpu_stream;
  struct LiveRequest {
    RequestHandle actor;
    std::string id;  ///< for the log
  };
  std::unordered_map<Engine::Ticket, LiveRequest> requests;
  std::map<caf::actor_addr, Engine::Ticket> tickets;  ///< who a DOWN message speaks of
  std::map<caf::actor_addr, Role> roles;
  Milliseconds tick{50};
  bool tick_pending = false;
};
static_assert(!std::is_aggregate_v<HealthShell>);

/// The supervisor, the shell round HealthState: starts and monitors the others, spawns a request actor per
/// ticket, is the only writer of the health word.
HealthHandle::behavior_type health_actor(HealthHandle::stateful_pointer<HealthShell> self,
                                         HealthSettings settings);

}  // namespace actors
