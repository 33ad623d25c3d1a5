#include "model/layers/slot_state.h"

namespace model {

gpu::Status reset_state(gpu::Stream& stream, std::span<const StateSpan> spans) {
  for (const StateSpan& span : spans) RETURN_IF_ERROR(stream.fill_zero(span.base, span.size, "reset state"));
  return gpu::Done{};
}

gpu::Status save_state(gpu::Stream& stream, std::span<const StateSpan> spans, std::byte* snapshot) {
  for (const StateSpan& span : spans) {
    RETURN_IF_ERROR(stream.copy(snapshot, span.base, span.size, "save state"));
    snapshot += span.size.n;
  }
  return gpu::Done{};
}

gpu::Status restore_state(gpu::Stream& stream, const std::byte* snapshot, std::span<const StateSpan> spans) {
  for (const StateSpan& span : spans) {
    RETURN_IF_ERROR(stream.copy(span.base, snapshot, span.size, "restore state"));
    snapshot += span.size.n;
  }
  return gpu::Done{};
}

gpu::Bytes state_bytes(std::span<const StateSpan> spans) {
  gpu::Bytes total;
  for (const StateSpan& span : spans) total += span.size;
  return total;
}

}  // namespace model
