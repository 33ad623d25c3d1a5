#pragma once

#include <cstddef>

namespace cuda_emulator {

struct StaticShared {
  unsigned char* base = nullptr;
  std::size_t size = 0;
};

/// All `__shared__` arrays of this module, as the calling thread sees them: the module's thread-local memory,
/// which holds nothing else (the emulator itself keeps none).
StaticShared static_shared();

}  // namespace cuda_emulator
