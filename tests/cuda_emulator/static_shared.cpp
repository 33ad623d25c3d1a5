#include "tests/cuda_emulator/static_shared.h"

#include <link.h>

#include <cstdint>

namespace cuda_emulator {
namespace {

// Touched so that the calling thread's copy of the module's thread-local memory exists.
thread_local volatile char anchor = 0;

struct Search {
  std::uintptr_t inside;  // an address in the module's thread-local memory
  StaticShared found;
};

int look_at(dl_phdr_info* module, std::size_t, void* opaque) {
  auto& search = *static_cast<Search*>(opaque);
  const auto base = reinterpret_cast<std::uintptr_t>(module->dlpi_tls_data);
  for (int i = 0; base != 0 && i < module->dlpi_phnum; ++i) {
    const auto& header = module->dlpi_phdr[i];
    if (header.p_type != PT_TLS || search.inside - base >= header.p_memsz) continue;
    search.found = {static_cast<unsigned char*>(module->dlpi_tls_data), header.p_memsz};
    return 1;
  }
  return 0;
}

}  // namespace

StaticShared static_shared() {
  anchor = 0;
  Search search{reinterpret_cast<std::uintptr_t>(&anchor), {}};
  dl_iterate_phdr(look_at, &search);
  return search.found;
}

}  // namespace cuda_emulator
