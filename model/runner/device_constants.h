#pragma once

#include <vector>

#include "gpu/device.h"
#include "model/arch/model_weights.h"
#include "model/cache/kv_layout.h"

namespace model {

/// Small tables that kernels read and that are no checkpoint tensors: rotary frequencies, n-gram hash
/// constants.
struct DeviceConstants {
  gpu::Buffer buffer;  ///< owns the rest
  kernels::Rope rope;
};

/// Uploads them, and points each n-gram layer's memory at its hash constants.
gpu::Result<DeviceConstants, gpu::DeviceError> upload_constants(gpu::Device& device, gpu::Stream& stream,
                                                                const ModelConfig& config,
                                                                const ModelWeights& weights,
                                                                std::vector<LayerMemory>& layers);

}  // namespace model
