#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/device/pieces.cuh"
#include "kernels/cuda/launch.h"

namespace kernels::cuda {
namespace {

constexpr int kThreads = 128;

template <class T>
struct Gated {
  MatrixView<T> y;
  MatrixView<const T> gate;
  std::int32_t head_dim, gate_stride, pieces_per_head, num_heads;
};

/// A thread a piece of a head. Bytes: y twice, the gates once.
template <class T, bool kWide>
__global__ void __launch_bounds__(kThreads) head_gate_kernel(Gated<T> g) {
  const int piece = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  const int head = piece / g.pieces_per_head;
  if (head >= g.num_heads) return;
  const int first = piece % g.pieces_per_head * kPiece;
  const int count = g.head_dim - first;
  for (std::int64_t r = blockIdx.y; r < g.y.rows.n; r += gridDim.y) {
    T* const y = g.y.row(Rows{r}) + std::int64_t{head} * g.head_dim + first;
    const T* const gate = g.gate.row(Rows{r}) + std::int64_t{head} * g.gate_stride + first;
    float values[kPiece], gates[kPiece];
    load_piece<kWide>(y, count, values);
    load_piece<kWide>(gate, count, gates);
#pragma unroll
    for (int j = 0; j < kPiece; ++j) values[j] *= sigmoid(gates[j]);
    store_piece<kWide>(y, count, values);
  }
}

}  // namespace

gpu::Status head_gate(Context& context, const HeadGateArgs& args) {
  return with_activation(args.y.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto pieces = static_cast<std::int32_t>(gpu::ceil_div(args.head_dim, kPiece));
    const Gated<T> g = {
        gpu::typed<T>(args.y), gpu::typed<T>(args.gate), args.head_dim, args.gate_stride, pieces,
        args.num_heads};
    const bool wide = args.head_dim % kPiece == 0 && args.gate_stride % kPiece == 0 && in_16_bytes(args.y) &&
                      in_16_bytes(args.gate);
    const Grid grid{{to_grid(gpu::ceil_div(std::int64_t{pieces} * args.num_heads, kThreads)),
                     to_grid(std::min<std::int64_t>(args.y.rows.n, 65535))},
                    {kThreads}};
    return launch(context.stream, "head_gate", grid,
                  wide ? head_gate_kernel<T, true> : head_gate_kernel<T, false>, g);
  });
}

}  // namespace kernels::cuda
