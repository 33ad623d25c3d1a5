#include <algorithm>
#include <string>

#include "kernels/cuda/blas_lt.h"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/device/gemm_fma.cuh"
#include "kernels/cuda/device/gemm_mma.cuh"
#include "kernels/cuda/launch.h"

namespace kernels::cuda {
namespace {

/// Rows of x as they lie.
template <class T>
struct PlainRows {
  MatrixView<const T> x;

  __device__ const T* x_row(std::int64_t i) const { return x.base + i * x.pitch.n; }
  __device__ std::int64_t y_row(std::int64_t i) const { return i; }
};

/// Blocks along N follow one another, so that those of one tile of rows share them in L2. The grid is one
/// line: its other directions end at 65535.
template <class Core, class TY>
__global__ void __launch_bounds__(Core::kThreads, 2)
    gemm_kernel(MatrixView<TY> y, MatrixView<const typename Core::T> x,
                MatrixView<const typename Core::T> w) {
  const unsigned across = blocks_of(y.cols.n, Core::kBlockN);
  TileRows tile;
  tile.first = std::int64_t{blockIdx.x / across} * Core::kBlockM;
  const std::int64_t left = y.rows.n - tile.first;
  tile.num_rows = static_cast<int>(left < Core::kBlockM ? left : Core::kBlockM);
  multiply_tile<Core>(PlainRows<typename Core::T>{x}, tile, static_cast<int>(blockIdx.x % across), y.cols.n,
                      w, y);
}

template <class Core, class TY>
gpu::Status multiply(Context& context, const GemmArgs& args) {
  using T = typename Core::T;
  const Grid grid{{blocks_of(args.y.cols.n, Core::kBlockN) * blocks_of(args.y.rows.n, Core::kBlockM)},
                  {Core::kThreads},
                  Core::kSharedBytes};
  return launch(context.stream, args.name, grid, gemm_kernel<Core, TY>, gpu::typed<TY>(args.y),
                gpu::typed<T>(args.x), gpu::typed<T>(args.w.matrix));
}

/// Any tile gives a row the same bits, so rows may choose.
template <class TY>
gpu::Status multiply_bf16(Context& context, const GemmArgs& args) {
  if (args.y.rows.n <= MmaFewRows::kBlockM) return multiply<MmaFewRows, TY>(context, args);
  if (args.y.rows.n <= MmaSomeRows::kBlockM) return multiply<MmaSomeRows, TY>(context, args);
  return multiply<MmaManyRows, TY>(context, args);
}

/// One column is a dot product a row. For it the library has only kernels that multiply a matrix by a vector,
/// whose order of summing depends on the number of rows.
bool is_for_the_library(const GemmArgs& args) { return args.y.cols.n > 1; }

/// The products that this backend has, as (x, w, y).
gpu::Status unsupported(const GemmArgs& args) {
  const std::string weight = args.w.is_quantized() ? std::string(to_string(args.w.quantized.format))
                                                   : std::string(to_string(args.w.matrix.dtype));
  return gpu::refused(
      std::string("gemm ") + args.name + ": x " + std::string(to_string(args.x.dtype)) + " with w " + weight +
      " into y " + std::string(to_string(args.y.dtype)) +
      " is not a product of the CUDA backend (bf16 with bf16 into bf16 or f32, f32 with f32 into f32)");
}

}  // namespace

gpu::Status gemm(Context& context, const GemmArgs& args) {
  using gpu::DType;
  const DType x = args.x.dtype, y = args.y.dtype;
  if (args.y.rows.n == 0 || args.y.cols.n == 0) return gpu::Done{};
  if (args.w.is_quantized() || args.w.matrix.dtype != x) return unsupported(args);
  if (x == DType::f32 && y == DType::f32) {
    return args.y.rows.n <= FmaFewRows::kBlockM ? multiply<FmaFewRows, float>(context, args)
                                                : multiply<FmaManyRows, float>(context, args);
  }
  if (x != DType::bf16) return unsupported(args);
  if (is_for_the_library(args)) {
    auto done = context.blas.matmul(context.stream, args);
    if (!done.ok()) return std::move(done).error();
    if (*done) return gpu::Done{};
  }
  return y == DType::f32 ? multiply_bf16<float>(context, args) : multiply_bf16<gpu::bf16>(context, args);
}

gpu::Status gemm_group(Context& context, const GemmGroupArgs& args) {
  for (const GemmGroupArgs::Output& output : args.outputs) {
    RETURN_IF_ERROR(gemm(context, GemmArgs{output.y, args.x, output.w, args.form, output.name}));
  }
  return gpu::Done{};
}

}  // namespace kernels::cuda
