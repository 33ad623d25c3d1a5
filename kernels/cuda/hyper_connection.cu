#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/device/pieces.cuh"

// One pass over each operand: a thread carries its piece of all C streams, so x and y are touched once.
namespace kernels::cuda {
namespace {

template <class T, bool kWide>
__global__ void repeat_streams_kernel(MatrixView<T> h, MatrixView<const T> x, int num_streams) {
  const std::int64_t hidden = x.cols.n, column = piece_index() * kPiece;
  if (column >= hidden) return;
  const int count = values_left(hidden, column);
  for (std::int64_t r = first_piece_row(); r < x.rows.n; r += piece_row_step()) {
    float values[kPiece];
    load_piece<kWide>(x.row(Rows{r}) + column, count, values);
    for (int s = 0; s < num_streams; ++s) {
      store_piece<kWide>(h.row(Rows{r}) + s * hidden + column, count, values);
    }
  }
}

template <class T, bool kWide>
__global__ void mix_streams_kernel(MatrixView<T> x, MatrixView<const T> g, MatrixView<const T> xn,
                                   int num_streams) {
  const std::int64_t hidden = x.cols.n, column = piece_index() * kPiece;
  if (column >= hidden) return;
  const int count = values_left(hidden, column);
  for (std::int64_t r = first_piece_row(); r < x.rows.n; r += piece_row_step()) {
    const T* const gates = g.row(Rows{r}) + column;
    const T* const values = xn.row(Rows{r}) + column;
    float sum[kPiece] = {};
#pragma unroll 4
    for (int s = 0; s < num_streams; ++s) {
      float gate[kPiece], value[kPiece];
      load_piece<kWide>(gates + s * hidden, count, gate);
      load_piece<kWide>(values + s * hidden, count, value);
#pragma unroll
      for (int i = 0; i < kPiece; ++i) sum[i] = fmaf(sigmoid(gate[i]), value[i], sum[i]);
    }
#pragma unroll
    for (int i = 0; i < kPiece; ++i) sum[i] /= static_cast<float>(num_streams);
    store_piece<kWide>(x.row(Rows{r}) + column, count, sum);
  }
}

template <class T, bool kWide>
__global__ void inject_streams_kernel(MatrixView<T> h, MatrixView<const T> y, MatrixView<const T> inject,
                                      int num_streams) {
  const std::int64_t hidden = y.cols.n, column = piece_index() * kPiece;
  if (column >= hidden) return;
  const int count = values_left(hidden, column);
  for (std::int64_t r = first_piece_row(); r < y.rows.n; r += piece_row_step()) {
    float added[kPiece];
    load_piece<kWide>(y.row(Rows{r}) + column, count, added);
#pragma unroll 4
    for (int s = 0; s < num_streams; ++s) {
      T* const stream = h.row(Rows{r}) + s * hidden + column;
      const float weight = 2.0F * sigmoid(to_float(inject.row(Rows{r})[s]) / static_cast<float>(num_streams));
      float values[kPiece];
      load_piece<kWide>(stream, count, values);
#pragma unroll
      for (int i = 0; i < kPiece; ++i) values[i] = fmaf(weight, added[i], values[i]);
      store_piece<kWide>(stream, count, values);
    }
  }
}

Grid grid_of(const ConstMatrix& narrow) {
  return piece_grid(narrow.rows.n, gpu::ceil_div(narrow.cols.n, kPiece));
}

}  // namespace

gpu::Status repeat_streams(Context& context, const RepeatStreamsArgs& args) {
  const bool wide = in_pieces(args.h, args.x.cols) && in_pieces(args.x, args.x.cols);
  return with_activation(args.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    return with_width(wide, [&](auto width) {
      return launch(context.stream, "repeat_streams", grid_of(args.x),
                    repeat_streams_kernel<T, decltype(width)::value>, gpu::typed<T>(args.h),
                    gpu::typed<T>(args.x), args.num_streams);
    });
  });
}

gpu::Status mix_streams(Context& context, const MixStreamsArgs& args) {
  const Elements hidden = args.x.cols;
  const bool wide = in_pieces(args.x, hidden) && in_pieces(args.g, hidden) && in_pieces(args.xn, hidden);
  return with_activation(args.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    return with_width(wide, [&](auto width) {
      return launch(context.stream, "mix_streams", grid_of(args.x),
                    mix_streams_kernel<T, decltype(width)::value>, gpu::typed<T>(args.x),
                    gpu::typed<T>(args.g), gpu::typed<T>(args.xn), args.num_streams);
    });
  });
}

gpu::Status inject_streams(Context& context, const InjectStreamsArgs& args) {
  const bool wide = in_pieces(args.h, args.y.cols) && in_pieces(args.y, args.y.cols);
  return with_activation(args.y.dtype, [&](auto zero) {
    using T = decltype(zero);
    return with_width(wide, [&](auto width) {
      return launch(context.stream, "inject_streams", grid_of(args.y),
                    inject_streams_kernel<T, decltype(width)::value>, gpu::typed<T>(args.h),
                    gpu::typed<T>(args.y), gpu::typed<T>(args.inject), args.num_streams);
    });
  });
}

}  // namespace kernels::cuda
