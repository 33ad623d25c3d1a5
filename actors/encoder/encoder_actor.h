#pragma once

#include <memory>

#include "actors/actor_drill.h"
#include "actors/handles.h"

namespace actors {

/// Spawned detached: rendering and encoding of long texts stalls nobody but other long texts.
EncoderHandle::behavior_type encoder_actor(EncoderHandle::pointer self,
                                           std::shared_ptr<ActorDrill> drill = nullptr);

}  // namespace actors
