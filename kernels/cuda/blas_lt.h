#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpu/cuda/cuda_stream.h"
#include "gpu/device.h"
#include "kernels/backend_module.h"
#include "kernels/fallbacks.h"
#include "kernels/gemm.h"

namespace kernels::cuda {

/// cuBLASLt for bf16 products, on tensor cores and without reductions across thread blocks
/// (CUBLASLT_REDUCTION_SCHEME_NONE): what makes a row's bits independent of how many rows there are. An
/// explicit workspace and, per shape, the library's first choice, looked up once. Used by the device's thread
/// alone.
class BlasLt {
 public:
  static gpu::Result<std::unique_ptr<BlasLt>, gpu::DeviceError> create(gpu::Device& device, BackendLog warn);
  virtual ~BlasLt() = default;

  /// y = x w^T with x, w bf16, y bf16 or f32. True: enqueued. False: the library refused, which was logged
  /// (once a shape, with its status, the shape and the operands' alignment) and counted; a shape (N, K, y's
  /// type) once refused is refused from then on, so that all its rows keep one order.
  virtual gpu::Result<bool, gpu::DeviceError> matmul(gpu::CudaStream& stream, const GemmArgs& args) = 0;

  virtual std::vector<GemmFallbacks> take_fallbacks() = 0;
  /// The next products are refused as if by the library, for drills and tests.
  virtual void refuse_next(int count) = 0;
  /// Control of the invariance test: allows reductions across thread blocks.
  virtual void allow_split_k(bool allowed) = 0;
  /// Which algorithm this product takes, for tests and logs.
  virtual std::string describe_choice(const GemmArgs& /*args*/) { return {}; }
};

}  // namespace kernels::cuda
