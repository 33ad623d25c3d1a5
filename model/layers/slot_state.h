#pragma once

#include <span>

#include "model/layers/layer.h"

namespace model {

/// A slot's device state outside of pages, moved whole. `spans` is Decoder::state_of(slot): the same layers
/// in the same order for every slot, so what one slot saved another may restore. All enqueued.
gpu::Status reset_state(gpu::Stream& stream, std::span<const StateSpan> spans);
/// Copies the state, span after span, to `snapshot` (state_bytes long), or back.
gpu::Status save_state(gpu::Stream& stream, std::span<const StateSpan> spans, std::byte* snapshot);
gpu::Status restore_state(gpu::Stream& stream, const std::byte* snapshot, std::span<const StateSpan> spans);
gpu::Bytes state_bytes(std::span<const StateSpan> spans);

}  // namespace model
