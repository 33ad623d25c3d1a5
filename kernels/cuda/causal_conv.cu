#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/device/pieces.cuh"

// Bytes of a segment of n rows: x and y once (its inputs again from the first cache, taps times), w once for
// every kRowsABlock rows, and (taps-1)*dilation rows of the ring read, min(n, ring_rows) written.
namespace kernels::cuda {
namespace {

constexpr int kThreads = 64;
/// Rows that one thread carries. A segment that fits reads and replaces its ring in one kernel: a column of a
/// ring is one thread's alone then.
constexpr int kRowsABlock = 16;

template <class T>
struct Conv {
  MatrixView<T> y;
  MatrixView<const T> x;
  MatrixView<const float> w;
  MatrixView<T> ring;
  std::int32_t ring_rows, taps, dilation;
  ConvActivation activation;
  const std::int32_t* row_position;
  const std::int32_t* segment_slot;
  const std::int32_t* segment_first_row;
  const std::int32_t* segment_num_rows;
};

struct ConvSegment {
  std::int64_t first_row, num_rows, position, ring_first;
};
template <class T>
__device__ ConvSegment segment_of(const Conv<T>& conv, int segment) {
  const std::int64_t first_row = conv.segment_first_row[segment];
  return {first_row, conv.segment_num_rows[segment], conv.row_position[first_row],
          std::int64_t{conv.segment_slot[segment]} * conv.ring_rows};
}
/// The ring's copy of row t of the segment (negative: before it).
template <class T>
__device__ T* ring_place(const Conv<T>& conv, const ConvSegment& s, std::int64_t t, std::int64_t column) {
  return conv.ring.row(Rows{s.ring_first + (s.position + t) % conv.ring_rows}) + column;
}

/// The last inputs of the segment into the ring, those of one piece of columns.
template <class T, bool kWide>
__device__ void replace_ring(const Conv<T>& conv, const ConvSegment& s, std::int64_t first, std::int64_t end,
                             std::int64_t column, int count) {
  for (std::int64_t t = first; t < end; ++t) {
    float values[kPiece];
    load_piece<kWide>(conv.x.row(Rows{s.first_row + t}) + column, count, values);
    store_piece<kWide>(ring_place(conv, s, t, column), count, values);
  }
}
__device__ inline std::int64_t first_kept(std::int64_t num_rows, std::int64_t ring_rows) {
  return num_rows > ring_rows ? num_rows - ring_rows : 0;
}

/// kTaps > 0: that many, their weights in registers. 0: conv.taps, read again for every row.
template <class T, bool kWide, int kTaps>
__global__ void __launch_bounds__(kThreads) conv_kernel(Conv<T> conv, bool replaces_ring) {
  const ConvSegment s = segment_of(conv, static_cast<int>(blockIdx.z));
  const std::int64_t first = std::int64_t{blockIdx.y} * kRowsABlock;
  const std::int64_t column = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * kPiece;
  if (first >= s.num_rows || column >= conv.x.cols.n) return;
  const int count = values_left(conv.x.cols.n, column);
  const int taps = kTaps > 0 ? kTaps : conv.taps;
  float w[kPiece][kTaps > 0 ? kTaps : 1];
  if constexpr (kTaps > 0) {
#pragma unroll
    for (int i = 0; i < kPiece; ++i) {
      const float* const of_channel = conv.w.row(Rows{column + (i < count ? i : 0)});
      if constexpr (kWide && kTaps == 4) {
        load_16(of_channel, w[i]);
      } else {
#pragma unroll
        for (int j = 0; j < kTaps; ++j) w[i][j] = of_channel[j];
      }
    }
  }
  const std::int64_t end = first + kRowsABlock < s.num_rows ? first + kRowsABlock : s.num_rows;
#pragma unroll 2
  for (std::int64_t t = first; t < end; ++t) {
    float sum[kPiece] = {};
#pragma unroll
    for (int j = 0; j < taps; ++j) {
      const std::int64_t from = t - std::int64_t{taps - 1 - j} * conv.dilation;
      float x[kPiece] = {};  // before the sequence
      if (from >= 0) {
        load_piece<kWide>(conv.x.row(Rows{s.first_row + from}) + column, count, x);
      } else if (s.position + from >= 0) {
        load_piece<kWide>(ring_place(conv, s, from, column), count, x);
      }
#pragma unroll
      for (int i = 0; i < kPiece; ++i) {
        float weight;
        if constexpr (kTaps > 0) {
          weight = w[i][j];
        } else {
          weight = i < count ? conv.w.row(Rows{column + i})[j] : 0.0F;
        }
        sum[i] = fmaf(weight, x[i], sum[i]);
      }
    }
    if (conv.activation == ConvActivation::silu) {
#pragma unroll
      for (int i = 0; i < kPiece; ++i) sum[i] = silu(sum[i]);
    }
    store_piece<kWide>(conv.y.row(Rows{s.first_row + t}) + column, count, sum);
  }
  if (replaces_ring) {
    replace_ring<T, kWide>(conv, s, first_kept(s.num_rows, conv.ring_rows), s.num_rows, column, count);
  }
}

/// After conv_kernel, where several blocks read a segment's ring.
template <class T, bool kWide>
__global__ void __launch_bounds__(kThreads) ring_kernel(Conv<T> conv) {
  const ConvSegment s = segment_of(conv, static_cast<int>(blockIdx.z));
  const std::int64_t column = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * kPiece;
  const std::int64_t t = first_kept(s.num_rows, conv.ring_rows) + blockIdx.y;
  if (t >= s.num_rows || column >= conv.x.cols.n) return;
  replace_ring<T, kWide>(conv, s, t, t + 1, column, values_left(conv.x.cols.n, column));
}

template <class T, bool kWide>
gpu::Status convolve(Context& context, const RowBatch& batch, const Conv<T>& conv) {
  const unsigned across = to_grid(gpu::ceil_div(conv.x.cols.n, kThreads * kPiece));
  const unsigned down = to_grid(gpu::ceil_div(batch.max_segment_rows, kRowsABlock));
  const auto segments = static_cast<unsigned>(batch.num_segments);
  const bool in_one = down == 1;
  RETURN_IF_ERROR(launch(context.stream, "causal_conv", Grid{{across, down, segments}, {kThreads}},
                         conv.taps == 4 ? conv_kernel<T, kWide, 4> : conv_kernel<T, kWide, 0>, conv, in_one));
  if (in_one) return gpu::Done{};
  const auto kept = static_cast<unsigned>(std::min(conv.ring_rows, batch.max_segment_rows));
  return launch(context.stream, "causal_conv", Grid{{across, kept, segments}, {kThreads}},
                ring_kernel<T, kWide>, conv);
}

}  // namespace

gpu::Status causal_conv(Context& context, const RowBatch& batch, const CausalConvArgs& args) {
  if (batch.num_rows.n == 0) return gpu::Done{};
  const Elements channels = args.x.cols;
  const bool wide = in_pieces(args.y, channels) && in_pieces(args.x, channels) &&
                    in_pieces(args.ring, channels) && (args.taps != 4 || in_16_bytes(args.w));
  return with_activation(args.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    const Conv<T> conv{gpu::typed<T>(args.y),
                       gpu::typed<T>(args.x),
                       gpu::typed<float>(args.w),
                       gpu::typed<T>(args.ring),
                       args.ring_rows,
                       args.taps,
                       args.dilation,
                       args.activation,
                       batch.row_position.base,
                       batch.segment_slot.base,
                       batch.segment_first_row.base,
                       batch.segment_num_rows.base};
    return with_width(wide,
                      [&](auto width) { return convolve<T, decltype(width)::value>(context, batch, conv); });
  });
}

}  // namespace kernels::cuda
