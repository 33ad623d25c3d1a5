#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/device/values.cuh"
#include "kernels/cuda/launch.h"

namespace kernels::cuda {
namespace {

constexpr int kThreads = 256;

/// One thread a 16-byte piece of a row (kWide), or a value. Bytes: three passes over [rows, cols].
template <class T, bool kWide>
__global__ void add_kernel(MatrixView<T> y, MatrixView<const T> x) {
  constexpr int kStep = kWide ? kPer16<T> : 1;
  const std::int64_t column = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * kStep;
  if (column >= y.cols.n) return;
  for (std::int64_t r = blockIdx.y; r < y.rows.n; r += gridDim.y) {
    T* const to = y.row(Rows{r}) + column;
    const T* const from = x.row(Rows{r}) + column;
    if constexpr (kWide) {
      float a[kStep], b[kStep];
      load_16(to, a);
      load_16(from, b);
#pragma unroll
      for (int i = 0; i < kStep; ++i) a[i] += b[i];
      store_16(to, a);
    } else {
      *to = from_float<T>(to_float(*to) + to_float(*from));
    }
  }
}

}  // namespace

gpu::Status add(Context& context, const AddArgs& args) {
  return with_activation(args.y.dtype, [&](auto zero) {
    using T = decltype(zero);
    const bool wide = in_16_bytes(args.y) && in_16_bytes(args.x);
    const std::int64_t pieces = gpu::ceil_div(args.y.cols.n, wide ? kPer16<T> : 1);
    const Grid grid{
        {to_grid(gpu::ceil_div(pieces, kThreads)), to_grid(std::min<std::int64_t>(args.y.rows.n, 65535))},
        {kThreads}};
    return launch(context.stream, "add", grid, wide ? add_kernel<T, true> : add_kernel<T, false>,
                  gpu::typed<T>(args.y), gpu::typed<T>(args.x));
  });
}

}  // namespace kernels::cuda
