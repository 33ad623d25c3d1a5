#include "gpu/cuda/cuda_device.h"
#include "kernels/backend_module.h"
#include "kernels/cuda/cuda_ops.h"

#ifndef ATLAS_BACKEND_NAME
#define ATLAS_BACKEND_NAME "cuda"
#endif

extern "C" __attribute__((visibility("default"))) const kernels::BackendModule* atlas_backend(
    std::uint32_t abi) {
  static constexpr kernels::BackendModule kModule = {kernels::kBackendAbi, ATLAS_BACKEND_NAME,
                                                     gpu::make_cuda_device, kernels::cuda::make_cuda_ops};
  return abi == kernels::kBackendAbi ? &kModule : nullptr;
}
