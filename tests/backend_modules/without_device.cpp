#include "kernels/backend_module.h"

namespace {
gpu::Result<std::unique_ptr<gpu::Device>, gpu::DeviceError> make_device() {
  return gpu::refused("no CUDA-capable device is detected");
}
}  // namespace

// A module on a machine without its device.
extern "C" __attribute__((visibility("default"))) const kernels::BackendModule* atlas_backend(
    std::uint32_t abi) {
  static constexpr kernels::BackendModule kModule = {kernels::kBackendAbi, "cuda", make_device, nullptr};
  return abi == kernels::kBackendAbi ? &kModule : nullptr;
}
