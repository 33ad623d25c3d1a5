#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/device/pieces.cuh"

// Bytes: one pass over each operand. add reads y and x and writes y; swiglu reads gate and up.
namespace kernels::cuda {
namespace {

template <class T, int kInputs>
struct Inputs {
  MatrixView<const T> of[kInputs];
};

/// y = f(inputs…), element by element. y may be an input: a thread reads its piece before it writes it.
template <class T, bool kWide, int kInputs, class F>
__global__ void map_kernel(MatrixView<T> y, Inputs<T, kInputs> inputs, F f) {
  const std::int64_t column = piece_index() * kPiece;
  if (column >= y.cols.n) return;
  const int count = values_left(y.cols.n, column);
  for (std::int64_t r = first_piece_row(); r < y.rows.n; r += piece_row_step()) {
    float in[kInputs][kPiece], out[kPiece];
#pragma unroll
    for (int n = 0; n < kInputs; ++n) load_piece<kWide>(inputs.of[n].row(Rows{r}) + column, count, in[n]);
#pragma unroll
    for (int i = 0; i < kPiece; ++i) {
      if constexpr (kInputs == 1) {
        out[i] = f(in[0][i]);
      } else {
        out[i] = f(in[0][i], in[1][i]);
      }
    }
    store_piece<kWide>(y.row(Rows{r}) + column, count, out);
  }
}

template <int kInputs, class F>
gpu::Status map(Context& context, const char* what, const Matrix& y, const ConstMatrix (&inputs)[kInputs],
                F f) {
  bool wide = in_pieces(y, y.cols);
  for (const ConstMatrix& input : inputs) wide = wide && in_pieces(input, y.cols);
  return with_activation(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    Inputs<T, kInputs> typed;
    for (int n = 0; n < kInputs; ++n) typed.of[n] = gpu::typed<T>(inputs[n]);
    return with_width(wide, [&](auto width) {
      return launch(context.stream, what, piece_grid(y.rows.n, gpu::ceil_div(y.cols.n, kPiece)),
                    map_kernel<T, decltype(width)::value, kInputs, F>, gpu::typed<T>(y), typed, f);
    });
  });
}

struct Sum {
  __device__ float operator()(float y, float x) const { return y + x; }
};
struct ScaledSilu {
  float scale;
  __device__ float operator()(float x) const { return silu(x * scale); }
};
struct Swiglu {
  __device__ float operator()(float gate, float up) const { return silu(gate) * up; }
};

}  // namespace

gpu::Status add(Context& context, const AddArgs& args) {
  return map(context, "add", args.y, {args.y, args.x}, Sum{});
}
gpu::Status scaled_silu(Context& context, const ScaledSiluArgs& args) {
  return map(context, "scaled_silu", args.y, {args.x}, ScaledSilu{args.scale});
}
gpu::Status swiglu(Context& context, const SwigluArgs& args) {
  return map(context, "swiglu", args.y, {args.gate, args.up}, Swiglu{});
}

}  // namespace kernels::cuda
