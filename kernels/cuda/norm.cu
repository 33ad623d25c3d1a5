#include "kernels/norm.h"

#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/device/pieces.cuh"
#include "kernels/cuda/device/reduce.cuh"
#include "kernels/cuda/launch.h"

namespace kernels::cuda {
namespace {

/// Threads of a row's group: a warp for heads, a block of warps for hidden states. A choice by the group's
/// size alone, since it is part of the order of the sum.
constexpr std::int64_t kWarpGroup = 512;
constexpr int kWarp = 32;
constexpr int kBlock = 256;
constexpr int kWarpsPerBlock = 8;

template <class T>
struct NormRows {
  MatrixView<T> y;
  MatrixView<const T> x;
  MatrixView<const T> z;  ///< base null: no gate
  const float* w;
  std::int64_t group, num_groups, w_step;
  float eps;
  float added;  ///< to each weight
  GateActivation activation;
};

/// Sum of squares of x[0, n) as thread `t` of `num_threads` sees it: its pieces ascending, one chain, however
/// they are loaded.
template <bool kWide, class T>
__device__ float squares_of_thread(const T* x, std::int64_t n, int t, int num_threads) {
  float sum = 0.0F;
  for (std::int64_t i = std::int64_t{t} * kPiece; i < n; i += std::int64_t{num_threads} * kPiece) {
    float values[kPiece];
    load_piece<kWide>(x + i, values_left(n, i), values);
#pragma unroll
    for (int j = 0; j < kPiece; ++j) sum = fmaf(values[j], values[j], sum);
  }
  return sum;
}

__device__ inline float inverse_rms(float sum_of_squares, std::int64_t n, float eps) {
  return 1.0F / sqrtf(sum_of_squares / static_cast<float>(n) + eps);
}

/// kThreads threads a (row, group). The row is read twice, the second time from cache. Bytes: the rows of x
/// (and z) and y once each; w stays in L2.
template <class T, bool kWide, int kThreads>
__global__ void __launch_bounds__(kBlock) norm_kernel(NormRows<T> n) {
  __shared__ float shared[kBlock / kWarp];
  const std::int64_t unit = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (unit >= n.y.rows.n * n.num_groups) return;
  const Rows row{unit / n.num_groups};
  const std::int64_t g = unit % n.num_groups;
  const T* const x = n.x.row(row) + g * n.group;
  T* const y = n.y.row(row) + g * n.group;
  const float* const w = n.w + g * n.w_step;
  const int t = static_cast<int>(threadIdx.x);

  const float squares = block_sum<kThreads>(squares_of_thread<kWide>(x, n.group, t, kThreads), shared);
  const float scale = inverse_rms(squares, n.group, n.eps);
  for (std::int64_t i = std::int64_t{t} * kPiece; i < n.group; i += kThreads * kPiece) {
    float values[kPiece], weights[kPiece];
    load_piece<kWide>(x + i, values_left(n.group, i), values);
    load_piece<kWide>(w + i, values_left(n.group, i), weights);
#pragma unroll
    for (int j = 0; j < kPiece; ++j) values[j] = values[j] * scale * (n.added + weights[j]);
    if (n.z.base != nullptr) {
      float gates[kPiece];
      load_piece<kWide>(n.z.row(row) + g * n.group + i, values_left(n.group, i), gates);
#pragma unroll
      for (int j = 0; j < kPiece; ++j)
        values[j] *= n.activation == GateActivation::sigmoid ? sigmoid(gates[j]) : silu(gates[j]);
    }
    store_piece<kWide>(y + i, values_left(n.group, i), values);
  }
}

template <class T>
gpu::Status launch_norm(Context& context, const char* what, const NormRows<T>& n, bool wide) {
  const std::int64_t units = n.y.rows.n * n.num_groups;
  if (n.group <= kWarpGroup) {
    const Grid grid{{to_grid(gpu::ceil_div(units, kWarpsPerBlock))}, {kWarp, kWarpsPerBlock}};
    return launch(context.stream, what, grid,
                  wide ? norm_kernel<T, true, kWarp> : norm_kernel<T, false, kWarp>, n);
  }
  return launch(context.stream, what, {{to_grid(units)}, {kBlock}},
                wide ? norm_kernel<T, true, kBlock> : norm_kernel<T, false, kBlock>, n);
}

bool in_16_bytes(const ConstVector& v) { return reinterpret_cast<std::uintptr_t>(v.base) % 16 == 0; }

template <class T>
struct HeadRows {
  MatrixView<T> y;
  MatrixView<const T> x;
  const float* w;  ///< null: no norm
  const std::int32_t* position;
  std::int32_t num_heads, head_dim, head_stride;
  float eps, added;
  Rope rope;
};

/// (x * scale) * (added + w) of kPiece columns from `column` on.
template <bool kWide, class T>
__device__ void normed_piece(const HeadRows<T>& n, const T* x, float scale, std::int64_t column, int count,
                             float (&values)[kPiece]) {
  load_piece<kWide>(x + column, count, values);
  if (n.w == nullptr) return;
  float weights[kPiece];
  load_piece<kWide>(n.w + column, count, weights);
#pragma unroll
  for (int j = 0; j < kPiece; ++j) values[j] = values[j] * scale * (n.added + weights[j]);
}

/// A warp a head. Angles are made anew by every head: rotary_dim / 2 of them, few beside the launch.
template <class T, bool kWide>
__global__ void __launch_bounds__(kBlock) head_norm_rope_kernel(HeadRows<T> n) {
  const std::int64_t unit = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (unit >= n.y.rows.n * n.num_heads) return;
  const Rows row{unit / n.num_heads};
  const std::int64_t head = unit % n.num_heads;
  const T* const x = n.x.row(row) + head * n.head_stride;
  T* const y = n.y.row(row) + head * n.head_dim;
  const int lane = static_cast<int>(threadIdx.x);
  float scale = 1.0F;
  if (n.w != nullptr) {
    // Collective: every lane has read the head before any lane writes it in place.
    scale = inverse_rms(warp_sum(squares_of_thread<kWide>(x, n.head_dim, lane, kWarp)), n.head_dim, n.eps);
  }
  const std::int64_t half = n.rope.inv_freq.size.n;
  const float position = static_cast<float>(n.position[row.n]);
  for (std::int64_t i = lane * kPiece; i < half; i += kWarp * kPiece) {
    const int count = values_left(half, i);
    float low[kPiece], high[kPiece];
    normed_piece<kWide>(n, x, scale, i, count, low);
    normed_piece<kWide>(n, x, scale, i + half, count, high);
#pragma unroll
    for (int j = 0; j < kPiece; ++j) {
      if (j >= count) break;
      float sine, cosine;
      sincosf(position * n.rope.inv_freq.base[i + j], &sine, &cosine);
      sine *= n.rope.attention_factor;
      cosine *= n.rope.attention_factor;
      const float a = low[j], b = high[j];
      low[j] = a * cosine - b * sine;
      high[j] = b * cosine + a * sine;
    }
    store_piece<kWide>(y + i, count, low);
    store_piece<kWide>(y + i + half, count, high);
  }
  for (std::int64_t i = 2 * half + lane * kPiece; i < n.head_dim; i += kWarp * kPiece) {
    float values[kPiece];
    normed_piece<kWide>(n, x, scale, i, values_left(n.head_dim, i), values);
    store_piece<kWide>(y + i, values_left(n.head_dim, i), values);
  }
}

}  // namespace

gpu::Status rms_norm(Context& context, const RmsNormArgs& args) {
  return with_activation(args.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    const std::int64_t group = args.group.n;
    NormRows<T> n = {};
    n.y = gpu::typed<T>(args.y);
    n.x = gpu::typed<T>(args.x);
    n.w = gpu::typed<float>(args.w).base;
    n.group = group;
    n.num_groups = args.x.cols.n / group;
    n.w_step = args.w.size == args.group ? 0 : group;  // one weight for all groups, or one a column
    n.eps = args.eps;
    n.added = args.weight == NormWeight::one_plus ? 1.0F : 0.0F;
    const bool wide =
        group % kPiece == 0 && in_16_bytes(args.x) && in_16_bytes(args.y) && in_16_bytes(args.w);
    return launch_norm(context, "rms_norm", n, wide);
  });
}

gpu::Status gated_rms_norm(Context& context, const GatedRmsNormArgs& args) {
  return with_activation(args.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    const std::int64_t group = args.group.n;
    NormRows<T> n = {};
    n.y = gpu::typed<T>(args.y);
    n.x = gpu::typed<T>(args.x);
    n.z = gpu::typed<T>(args.z);
    n.w = gpu::typed<float>(args.w).base;
    n.group = group;
    n.num_groups = args.x.cols.n / group;
    n.eps = args.eps;
    n.activation = args.activation;
    const bool wide = group % kPiece == 0 && in_16_bytes(args.x) && in_16_bytes(args.y) &&
                      in_16_bytes(args.z) && in_16_bytes(args.w);
    return launch_norm(context, "gated_rms_norm", n, wide);
  });
}

gpu::Status head_norm_rope(Context& context, const RowBatch& batch, const HeadNormRopeArgs& args) {
  return with_activation(args.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    HeadRows<T> n = {};
    n.y = gpu::typed<T>(args.y);
    n.x = gpu::typed<T>(args.x);
    n.w = args.w.empty() ? nullptr : gpu::typed<float>(args.w).base;
    n.position = batch.row_position.base;
    n.num_heads = args.num_heads;
    n.head_dim = args.head_dim;
    n.head_stride = args.head_stride;
    n.eps = args.eps;
    n.added = args.weight == NormWeight::one_plus ? 1.0F : 0.0F;
    n.rope = args.rope;
    const bool wide = args.head_dim % kPiece == 0 && args.head_stride % kPiece == 0 &&
                      args.rope.inv_freq.size.n % kPiece == 0 && in_16_bytes(args.x) && in_16_bytes(args.y) &&
                      in_16_bytes(args.w);
    const std::int64_t units = batch.num_rows.n * args.num_heads;
    const Grid grid{{to_grid(gpu::ceil_div(units, kWarpsPerBlock))}, {kWarp, kWarpsPerBlock}};
    return launch(context.stream, "head_norm_rope", grid,
                  wide ? head_norm_rope_kernel<T, true> : head_norm_rope_kernel<T, false>, n);
  });
}

}  // namespace kernels::cuda
