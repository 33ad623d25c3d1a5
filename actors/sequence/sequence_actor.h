#pragma once

#include <optional>

#include "actors/actor_drill.h"
#include "actors/handles.h"
#include "actors/request/outlet.h"
#include "actors/sequence/sequence_state.h"

namespace actors {

struct SequenceSettings {
  Register registration;
  TextSettings text;
  std::shared_ptr<Outlet> outlet;  ///< where its text goes
  RequestHandle request;
  SchedulerHandle scheduler;
  std::shared_ptr<Metrics> metrics;
  std::shared_ptr<ActorDrill> drill = nullptr;  ///< null: none
};
struct SequenceShell {
  SequenceShell() = default;
  SequenceSettings settings;
  std::optional<SequenceTextState> text;
};
static_assert(!std::is_aggregate_v<SequenceShell>);

/// The shell round SequenceTextState: one choice. Registers with the scheduler first of all, lives until its
/// request is gone, and takes its sequence with it.
SequenceHandle::behavior_type sequence_actor(SequenceHandle::stateful_pointer<SequenceShell> self,
                                             SequenceSettings settings);

}  // namespace actors
