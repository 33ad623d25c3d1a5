#pragma once

#include "gpu/stream.h"
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/weight_storage.h"

namespace model {

/// Copies checked tensors to their places, file by file from front to back, and lets go of the mapped pages
/// behind it. `copied` is told how many bytes of the files are done.
gpu::Status copy_weights(const WeightMap& map, const Checkpoint& checkpoint, const WeightStorage& storage,
                         gpu::Stream& stream, const std::function<void(std::int64_t bytes)>& copied);

}  // namespace model
