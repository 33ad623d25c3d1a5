#pragma once

#include <memory>

#include "gpu/device.h"

namespace gpu {

/// Device 0 of this process. Refused, with the runtime's reason, when there is no driver, no device, or none
/// that this build has code for.
Result<std::unique_ptr<Device>, DeviceError> make_cuda_device();

}  // namespace gpu
