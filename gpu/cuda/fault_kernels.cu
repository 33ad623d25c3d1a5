#include "gpu/cuda/fault_kernels.h"

#include <cstddef>
#include <cstdint>

namespace gpu {
namespace {

__global__ void empty_kernel() {}

/// 16 bytes from an odd address.
__global__ void misaligned_kernel(unsigned char* memory) {
  const uint4 loaded = *reinterpret_cast<const uint4*>(memory + 1);
  if (loaded.x + loaded.y + loaded.z + loaded.w == 1) memory[0] = 0;  // so that the load is needed
}

/// `address` is where no memory is.
__global__ void illegal_kernel(std::uintptr_t address) { *reinterpret_cast<volatile int*>(address) = 1; }

template <class... Parameters, class... Arguments>
cudaError_t launch_one(cudaStream_t stream, unsigned threads, void (*kernel)(Parameters...),
                       Arguments... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = 1;
  config.blockDim = threads;
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

}  // namespace

cudaError_t launch_probe() { return launch_one(nullptr, 1, empty_kernel); }

cudaError_t launch_fault(cudaStream_t stream, InjectedFault fault, void* memory) {
  constexpr unsigned kTooManyThreads = 4096;
  constexpr std::uintptr_t kFirstPage = 4096;  // never mapped: null pointers with an offset end here
  switch (fault) {
    case InjectedFault::refused_launch:
      return launch_one(stream, kTooManyThreads, empty_kernel);
    case InjectedFault::out_of_memory: {
      void* more_than_there_is = nullptr;
      return cudaMalloc(&more_than_there_is, std::size_t{1} << 60);
    }
    case InjectedFault::misaligned_address:
      return launch_one(stream, 1, misaligned_kernel, static_cast<unsigned char*>(memory));
    case InjectedFault::illegal_address:
      return launch_one(stream, 1, illegal_kernel, kFirstPage);
  }
  return cudaErrorInvalidValue;
}

}  // namespace gpu
