#include "kernels/backend_module.h"

#include <dlfcn.h>

#include <string_view>

namespace kernels {
namespace {

/// "lib/atlas_cuda.so": how the module is called, wherever the tree lies.
std::string name_of(const std::filesystem::path& file) {
  return (file.parent_path().filename() / file.filename()).string();
}

/// The linker's words behind the module's name; it names the file itself in full, and a library that the
/// module needs by that library's name alone.
std::string linker_error(const std::filesystem::path& file) {
  const char* const said = dlerror();
  std::string_view why = said != nullptr ? said : "cannot be loaded";
  const std::string full = file.string() + ": ";
  if (why.substr(0, full.size()) == full) why.remove_prefix(full.size());
  return std::string(why);
}

}  // namespace

gpu::Result<const BackendModule*, BackendUnavailable> load_backend_module(const std::filesystem::path& file) {
  const auto unavailable = [&](const std::string& why) {
    return BackendUnavailable{name_of(file) + ": " + why};
  };
  std::error_code unreadable;
  if (!std::filesystem::exists(file, unreadable)) return unavailable("not there");
  // Never closed: its objects and code are used until the process ends.
  void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return unavailable(linker_error(file));
  const auto entry = reinterpret_cast<BackendEntry>(dlsym(handle, kBackendSymbol));
  if (entry == nullptr) return unavailable(std::string("no symbol ") + kBackendSymbol);
  const BackendModule* const module = entry(kBackendAbi);
  if (module == nullptr || module->abi != kBackendAbi) {
    return unavailable("of another version of atlas (interface " + std::to_string(kBackendAbi) +
                       " is needed" +
                       (module != nullptr ? ", it has " + std::to_string(module->abi) : std::string()) + ')');
  }
  return module;
}

std::filesystem::path cuda_module_path() {
  std::error_code error;
  const auto binary = std::filesystem::read_symlink("/proc/self/exe", error);
  return binary.parent_path() / "lib" / "atlas_cuda.so";
}

}  // namespace kernels
