#pragma once

#include <cuda_runtime.h>

#include <type_traits>
#include <utility>

#include "gpu/cuda/cuda_stream.h"
#include "kernels/batch.h"

/// How ops of this backend start kernels. `kernel<<<…>>>` is written nowhere: one function launches, so one
/// function checks.
namespace kernels::cuda {

struct Grid {
  dim3 blocks;
  dim3 threads;
  std::int64_t shared_bytes = 0;  ///< dynamic; raised above 48 KB where needed
};

/// Enqueues `kernel(arguments…)`. A grid without blocks is a no-op. Refused or lost as gpu::check says.
template <class... Parameters, class... Arguments>
gpu::Status launch(gpu::CudaStream& stream, const char* what, const Grid& grid, void (*kernel)(Parameters...),
                   Arguments&&... arguments) {
  if (grid.blocks.x == 0 || grid.blocks.y == 0 || grid.blocks.z == 0) return gpu::Done{};
  if (grid.shared_bytes > 48 * 1024) {
    RETURN_IF_ERROR(stream.check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                      static_cast<int>(grid.shared_bytes)),
                                 what));
  }
  cudaLaunchConfig_t config = {};
  config.gridDim = grid.blocks;
  config.blockDim = grid.threads;
  config.dynamicSmemBytes = static_cast<std::size_t>(grid.shared_bytes);
  config.stream = stream.handle();
  return stream.check(
      cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(std::forward<Arguments>(arguments))...),
      what);
}

inline unsigned to_grid(std::int64_t n) { return static_cast<unsigned>(n); }
/// Blocks that hold n, `each` apiece.
__host__ __device__ inline unsigned blocks_of(std::int64_t n, std::int64_t each) {
  return static_cast<unsigned>((n + each - 1) / each);
}

/// The kernels' element type of an activation dtype that was checked before: f(float{}) or f(gpu::bf16{}).
template <class F>
auto with_activation(gpu::DType dtype, const F& f) {
  return dtype == gpu::DType::bf16 ? f(gpu::bf16{}) : f(float{});
}

/// True when every row of the matrices can be read in whole 16-byte pieces.
inline bool in_16_bytes(const gpu::ConstMatrix& m) {
  return reinterpret_cast<std::uintptr_t>(m.base) % 16 == 0 && bytes_of(m.dtype, m.pitch).n % 16 == 0 &&
         bytes_of(m.dtype, m.cols).n % 16 == 0;
}

}  // namespace kernels::cuda
