#pragma once

#include <vector>

#include "gpu/device.h"
#include "model/checkpoint/weight_map.h"

namespace model {

/// Device memory for all weights of a map: few large buffers, every weight dense and 256-byte aligned.
struct WeightStorage {
  std::vector<gpu::Buffer> buffers;
  std::vector<std::byte*> addresses;  ///< by index in the map
  std::int64_t bytes = 0;             ///< of the weights, without padding
};

/// The dtype on the device of a weight that files keep as `stored`.
gpu::DType device_dtype(const WeightSpec& weight, gpu::DType stored);

/// Allocates, and points every target of the map at its place. `stored` is each weight's dtype in the files.
Result<WeightStorage, LoadError> place_weights(const WeightMap& map, const std::vector<gpu::DType>& stored,
                                               gpu::Device& device);

}  // namespace model
