#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/device/values.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/page_rows.h"

namespace kernels::cuda {
namespace {

constexpr int kThreads = 128;

template <class T>
struct Appended {
  MatrixView<T> cache[2];  ///< keys, values
  MatrixView<const T> rows[2];
  const std::int32_t* slot;
  const std::int32_t* position;
  PageTables pages;
};

/// blockIdx: pieces of a row, rows, keys or values. Bytes: each row once in, once out.
template <class T, bool kWide>
__global__ void __launch_bounds__(kThreads) kv_append_kernel(Appended<T> a) {
  constexpr int kStep = kWide ? kPer16<T> : 1;
  const std::int64_t column = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * kStep;
  const MatrixView<const T> from = a.rows[blockIdx.z];
  const MatrixView<T> cache = a.cache[blockIdx.z];
  if (column >= from.cols.n) return;
  for (std::int64_t r = blockIdx.y; r < from.rows.n; r += gridDim.y) {
    const T* const x = from.row(Rows{r}) + column;
    T* const y = cache.row(Rows{page_row(a.pages, a.slot[r], a.position[r])}) + column;
    if constexpr (kWide) {
      *reinterpret_cast<uint4*>(y) = *reinterpret_cast<const uint4*>(x);
    } else {
      *y = *x;
    }
  }
}

}  // namespace

gpu::Status kv_append(Context& context, const RowBatch& batch, const KvAppendArgs& args) {
  return with_activation(args.k.dtype, [&](auto zero) {
    using T = decltype(zero);
    const Appended<T> a = {{gpu::typed<T>(args.k_cache), gpu::typed<T>(args.v_cache)},
                           {gpu::typed<T>(args.k), gpu::typed<T>(args.v)},
                           batch.row_slot.base,
                           batch.row_position.base,
                           args.pages};
    const bool wide =
        in_16_bytes(args.k) && in_16_bytes(args.v) && in_16_bytes(args.k_cache) && in_16_bytes(args.v_cache);
    const std::int64_t pieces = gpu::ceil_div(args.k.cols.n, wide ? kPer16<T> : 1);
    const Grid grid{{to_grid(gpu::ceil_div(pieces, kThreads)),
                     to_grid(std::min<std::int64_t>(batch.num_rows.n, 65535)), 2},
                    {kThreads}};
    return launch(context.stream, "kv_append", grid,
                  wide ? kv_append_kernel<T, true> : kv_append_kernel<T, false>, a);
  });
}

}  // namespace kernels::cuda
