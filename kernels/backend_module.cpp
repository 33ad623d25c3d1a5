#include "kernels/backend_module.h"

#include <dlfcn.h>

namespace kernels {

gpu::Result<const BackendModule*, BackendUnavailable> load_backend_module(const std::filesystem::path& file) {
  std::error_code unreadable;
  if (!std::filesystem::exists(file, unreadable)) return BackendUnavailable{file.string() + ": not there"};
  // Never closed: its objects and code are used until the process ends.
  void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const why = dlerror();
    return BackendUnavailable{why != nullptr ? why : file.string() + ": cannot be loaded"};
  }
  const auto entry = reinterpret_cast<BackendEntry>(dlsym(handle, kBackendSymbol));
  if (entry == nullptr) return BackendUnavailable{file.string() + ": no symbol " + kBackendSymbol};
  const BackendModule* const module = entry(kBackendAbi);
  if (module == nullptr || module->abi != kBackendAbi) {
    return BackendUnavailable{file.string() + ": of another version of atlas (interface " +
                              std::to_string(kBackendAbi) + " is needed)"};
  }
  return module;
}

std::filesystem::path cuda_module_path() {
  std::error_code error;
  const auto binary = std::filesystem::read_symlink("/proc/self/exe", error);
  return binary.parent_path() / "lib" / "atlas_cuda.so";
}

}  // namespace kernels
