#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/device/reduce.cuh"
#include "kernels/cuda/launch.h"

namespace kernels::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kMaxExperts = 512;
constexpr int kMaxTopK = 32;  // a lane keeps a slot
constexpr int kPerLane = kMaxExperts / 32;

/// Below every probability: NaN sorts last, so that every slot holds a real expert; taken ones are below
/// that.
constexpr float kNan = -1.0F, kTaken = -2.0F;

/// One warp a row; lane l holds experts l, l + 32, … Bytes: one pass over logits.
template <class T>
__global__ void route_kernel(MatrixView<std::int32_t> ids, MatrixView<float> weights,
                             MatrixView<const T> logits, bool renormalize) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t row = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  if (row >= logits.rows.n) return;  // a whole warp
  const int num_experts = static_cast<int>(logits.cols.n);
  const int top_k = static_cast<int>(ids.cols.n);
  const T* const from = logits.base + row * logits.pitch.n;

  float p[kPerLane];
  float largest = -INFINITY;
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    const int e = lane + 32 * i;
    p[i] = e < num_experts ? to_float(from[e]) : -INFINITY;
    largest = fmaxf(largest, p[i]);
  }
  largest = warp_max(largest);
  float total = 0.0F;
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    const bool exists = lane + 32 * i < num_experts;
    p[i] = exists ? expf(p[i] - largest) : 0.0F;
    total += p[i];
  }
  total = warp_sum(total);
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    const float probability = p[i] / total;
    p[i] = lane + 32 * i >= num_experts ? kTaken : probability == probability ? probability : kNan;
  }

  std::int32_t my_id = 0;  // of slot `lane`
  float my_p = 0.0F, kept = 0.0F;
  for (int slot = 0; slot < top_k; ++slot) {
    float best = kTaken;
    int best_id = num_experts;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      if (p[i] > best) {  // ascending ids: the first of equals stays
        best = p[i];
        best_id = lane + 32 * i;
      }
    }
#pragma unroll
    for (int apart = 16; apart > 0; apart /= 2) {
      const float other = __shfl_xor_sync(kWholeWarp, best, apart);
      const int other_id = __shfl_xor_sync(kWholeWarp, best_id, apart);
      if (other > best || (other == best && other_id < best_id)) {
        best = other;
        best_id = other_id;
      }
    }
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      if (lane + 32 * i == best_id) p[i] = kTaken;
    }
    const float chosen = best == kNan ? NAN : best;
    kept += chosen;
    if (lane == slot) {
      my_id = best_id;
      my_p = chosen;
    }
  }
  if (lane >= top_k) return;
  ids.base[row * ids.pitch.n + lane] = my_id;
  weights.base[row * weights.pitch.n + lane] = renormalize ? my_p / kept : my_p;
}

/// y += sigmoid(gate) * shared. One thread a 16-byte piece of a row (kWide), or a value.
template <class T, bool kWide>
__global__ void shared_expert_add_kernel(MatrixView<T> y, MatrixView<const T> shared,
                                         MatrixView<const T> gate) {
  constexpr int kStep = kWide ? kPer16<T> : 1;
  const std::int64_t column = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * kStep;
  if (column >= y.cols.n) return;
  for (std::int64_t r = blockIdx.y; r < y.rows.n; r += gridDim.y) {
    const float weight = sigmoid(to_float(gate.base[r * gate.pitch.n]));
    T* const to = y.base + r * y.pitch.n + column;
    const T* const from = shared.base + r * shared.pitch.n + column;
    if constexpr (kWide) {
      float a[kStep], b[kStep];
      load_16(static_cast<const T*>(to), a);
      load_16(from, b);
#pragma unroll
      for (int i = 0; i < kStep; ++i) a[i] = fmaf(weight, b[i], a[i]);
      store_16(to, a);
    } else {
      *to = from_float<T>(fmaf(weight, to_float(*from), to_float(*to)));
    }
  }
}

}  // namespace

gpu::Status moe_route(Context& context, const MoeRouteArgs& args) {
  const std::int64_t num_experts = args.logits.cols.n, top_k = args.ids.cols.n;
  if (args.logits.rows.n > 0 && (num_experts > kMaxExperts || top_k > kMaxTopK)) {
    return gpu::refused("moe_route: top " + std::to_string(top_k) + " of " + std::to_string(num_experts) +
                        " experts, at most " + std::to_string(kMaxTopK) + " of " +
                        std::to_string(kMaxExperts));
  }
  return with_activation(args.logits.dtype, [&](auto zero) {
    using T = decltype(zero);
    const Grid grid{{to_grid(gpu::ceil_div(args.logits.rows.n, kWarps))}, {kWarps * 32}};
    return launch(context.stream, "moe_route", grid, route_kernel<T>, args.ids, args.weights,
                  gpu::typed<T>(args.logits), args.renormalize);
  });
}

gpu::Status shared_expert_add(Context& context, const SharedExpertAddArgs& args) {
  constexpr int kThreads = 256;
  return with_activation(args.y.dtype, [&](auto zero) {
    using T = decltype(zero);
    const bool wide = in_16_bytes(args.y) && in_16_bytes(args.shared);
    const std::int64_t pieces = gpu::ceil_div(args.y.cols.n, wide ? kPer16<T> : 1);
    const Grid grid{
        {to_grid(gpu::ceil_div(pieces, kThreads)), to_grid(std::min<std::int64_t>(args.y.rows.n, 65535))},
        {kThreads}};
    return launch(context.stream, "shared_expert_add", grid,
                  wide ? shared_expert_add_kernel<T, true> : shared_expert_add_kernel<T, false>,
                  gpu::typed<T>(args.y), gpu::typed<T>(args.shared), gpu::typed<T>(args.gate));
  });
}

}  // namespace kernels::cuda
