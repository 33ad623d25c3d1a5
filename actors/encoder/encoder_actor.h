#pragma once

#include "actors/handles.h"

namespace actors {

/// Spawned detached: rendering and encoding of long texts stalls nobody but other long texts.
EncoderHandle::behavior_type encoder_actor(EncoderHandle::pointer self);

}  // namespace actors
