#include "kernels/backend_module.h"

// A module of the next version: it knows its own number alone.
extern "C" __attribute__((visibility("default"))) const kernels::BackendModule* atlas_backend(
    std::uint32_t abi) {
  static constexpr std::uint32_t kNextAbi = kernels::kBackendAbi + 1;
  static constexpr kernels::BackendModule kModule = {kNextAbi, "next", nullptr, nullptr};
  return abi == kNextAbi ? &kModule : nullptr;
}
