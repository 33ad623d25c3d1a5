#pragma once

#include <vector>

#include "gpu/device.h"
#include "model/checkpoint/stored_type.h"
#include "model/checkpoint/weight_map.h"

namespace model {

/// How a weight's type in the files and its use decide what it is on the device.
struct WeightForm {
  StoredType stored;
  StoredType device;
  kernels::QuantizedMatrix::Layout layout = kernels::QuantizedMatrix::Layout::packed;  ///< where quantised
};

/// Device memory for all weights of a map: few large buffers, every weight dense and 256-byte aligned.
struct WeightStorage {
  std::vector<gpu::Buffer> buffers;
  std::vector<std::byte*> addresses;  ///< by index in the map
  std::vector<WeightForm> forms;
  std::int64_t bytes = 0;  ///< of the weights, without padding
};

/// The type on the device of a weight that files keep as `stored`. `matrices`: what matrices become there;
/// none: what they are.
StoredType device_type(const WeightSpec& weight, const StoredType& stored,
                       std::optional<gpu::DType> matrices);
gpu::Bytes device_bytes(const WeightSpec& weight, const WeightForm& form);

/// Allocates, and points every target of the map at its place. `forms` is by index in the map.
Result<WeightStorage, LoadError> place_weights(const WeightMap& map, const std::vector<WeightForm>& forms,
                                               gpu::Device& device);

}  // namespace model
