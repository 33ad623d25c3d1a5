#pragma once

#include <cuda_runtime.h>

#include "gpu/stream.h"

namespace gpu {

/// A kernel that does nothing: whether this build has code for the device.
cudaError_t launch_probe();

/// Commits `fault`. `memory`: 32 bytes of the device's, 16-byte aligned; left as they are.
cudaError_t launch_fault(cudaStream_t stream, InjectedFault fault, void* memory);

}  // namespace gpu
