#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "cuda_emulator/runtime_api.h"

namespace cuda_emulator {

struct KernelRun {
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes = 0;
  const void* kernel = nullptr;  // for its name
  std::function<void()> call;    // the kernel with its arguments
};

/// Runs every thread of a grid. What became of it: success, or the error that would have killed the context,
/// after saying where on stderr. Threads that wait for each other in vain end the process with a report.
cudaError_t run_grid(const KernelRun& run);

/// The kernel's name from this module's symbol table, else its address.
std::string kernel_name(const void* kernel);

}  // namespace cuda_emulator
