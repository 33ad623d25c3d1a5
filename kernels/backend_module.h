#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "gpu/device.h"
#include "kernels/ops.h"

namespace kernels {

/// Raised whenever anything that crosses the module's boundary changes: gpu/*.h, kernels/*.h.
inline constexpr std::uint32_t kBackendAbi = 3;

/// What a backend in a shared library offers. The module never leaves the process once it was loaded.
struct BackendModule {
  std::uint32_t abi = 0;
  const char* name = "";
  gpu::Result<std::unique_ptr<gpu::Device>, gpu::DeviceError> (*make_device)() = nullptr;
  /// `device` is the module's and outlives the ops.
  gpu::Result<std::unique_ptr<Ops>, gpu::DeviceError> (*make_ops)(gpu::Device& device,
                                                                  BackendLog warn) = nullptr;
};

/// The one symbol that a module exports. Null when the number is not the module's own.
inline constexpr const char* kBackendSymbol = "atlas_backend";
using BackendEntry = const BackendModule* (*)(std::uint32_t abi);

struct BackendUnavailable {
  std::string why;  ///< "lib/atlas_cuda.so: libcublasLt.so.13: cannot open shared object file …"
};

/// Loads a module and checks its number. Does not touch the device.
gpu::Result<const BackendModule*, BackendUnavailable> load_backend_module(const std::filesystem::path& file);

/// `lib/atlas_cuda.so` beside the running binary.
std::filesystem::path cuda_module_path();

}  // namespace kernels
