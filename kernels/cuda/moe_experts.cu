#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/device/expert_order.cuh"
#include "kernels/cuda/device/faults.cuh"
#include "kernels/cuda/device/gemm_fma.cuh"
#include "kernels/cuda/device/gemm_mma.cuh"
#include "kernels/cuda/launch.h"

/// Experts as grouped products: pairs (row, slot) are ordered by expert on the device, one launch multiplies
/// every expert's tiles, nobody waits for the host. A pair's values come from its row and its expert's
/// weights through chains over K (gemm_tile.cuh) that know neither the tile nor its other rows.
namespace kernels::cuda {
namespace {

constexpr int kOrderThreads = 512;
constexpr int kOrderWarps = kOrderThreads / 32;
constexpr int kExpertsPerBlock = 8;

/// The expert ids of all pairs, read in steps of a warp: 32 pairs further without a division.
class PairIds {
 public:
  __device__ PairIds(const MatrixView<const std::int32_t>& ids, std::int64_t pair)
      : ids_(ids), row_(pair / ids.cols.n), slot_(static_cast<int>(pair % ids.cols.n)) {}
  __device__ std::int32_t get() const { return ids_.base[row_ * ids_.pitch.n + slot_]; }
  __device__ std::int64_t row() const { return row_; }
  __device__ void next(int rows, int slots) {
    row_ += rows;
    slot_ += slots;
    if (slot_ >= ids_.cols.n) {
      slot_ -= static_cast<int>(ids_.cols.n);
      ++row_;
    }
  }

 private:
  const MatrixView<const std::int32_t>& ids_;
  std::int64_t row_;
  int slot_;
};

/// A counting sort, stable: each block places the pairs of eight experts, each warp those of its part of the
/// pairs. All blocks count all pairs: 4 bytes a pair and block out of L2.
__global__ void __launch_bounds__(kOrderThreads)
    order_kernel(std::int32_t* start, std::int32_t* pairs, MatrixView<const std::int32_t> ids,
                 int num_experts, gpu::FaultRecord* faults) {
  __shared__ int counts[kOrderWarps][kExpertsPerBlock + 1];  // last: pairs of lower experts
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int first_expert = static_cast<int>(blockIdx.x) * kExpertsPerBlock;
  const std::int64_t num_pairs = ids.rows.n * ids.cols.n;
  const std::int64_t part = ((num_pairs + kOrderWarps - 1) / kOrderWarps + 31) / 32 * 32;
  const std::int64_t begin = warp * part;
  const std::int64_t end = begin + part < num_pairs ? begin + part : num_pairs;
  const int step_rows = 32 / static_cast<int>(ids.cols.n), step_slots = 32 % static_cast<int>(ids.cols.n);

  int mine[kExpertsPerBlock] = {};
  int lower = 0;
  PairIds counted(ids, begin + lane);
  for (std::int64_t pair = begin + lane; pair < end; pair += 32, counted.next(step_rows, step_slots)) {
    const std::int32_t id = counted.get();
    lower += id >= 0 && id < first_expert;
#pragma unroll
    for (int e = 0; e < kExpertsPerBlock; ++e) mine[e] += id == first_expert + e && id < num_experts;
    if (blockIdx.x == 0 && (id < 0 || id >= num_experts)) {
      report(faults, gpu::ValueFault::expert, counted.row(), id);
    }
  }
#pragma unroll
  for (int e = 0; e <= kExpertsPerBlock; ++e) {
    int sum = e < kExpertsPerBlock ? mine[e < kExpertsPerBlock ? e : 0] : lower;
#pragma unroll
    for (int apart = 16; apart > 0; apart /= 2) sum += __shfl_xor_sync(kWholeWarp, sum, apart);
    if (lane == 0) counts[warp][e] = sum;
  }
  __syncthreads();

  int place = 0;  // of this block's next expert, and then of this warp's next pair of each
  for (int w = 0; w < kOrderWarps; ++w) place += counts[w][kExpertsPerBlock];
  int next[kExpertsPerBlock];
#pragma unroll
  for (int e = 0; e < kExpertsPerBlock; ++e) {
    if (threadIdx.x == 0 && first_expert + e < num_experts) start[first_expert + e] = place;
    for (int w = 0; w < kOrderWarps; ++w) {
      if (w == warp) next[e] = place;
      place += counts[w][e];
    }
  }
  if (threadIdx.x == 0 && first_expert + kExpertsPerBlock >= num_experts) start[num_experts] = place;

  PairIds placed(ids, begin + lane);
  for (std::int64_t at = begin; at < end; at += 32, placed.next(step_rows, step_slots)) {
    const std::int64_t pair = at + lane;
    const std::int32_t id = pair < end ? placed.get() : -1;
#pragma unroll
    for (int e = 0; e < kExpertsPerBlock; ++e) {
      const bool is_mine = id == first_expert + e && id < num_experts;
      const unsigned all = __ballot_sync(kWholeWarp, is_mine);
      if (is_mine) pairs[next[e] + __popc(all & ((1U << lane) - 1U))] = static_cast<std::int32_t>(pair);
      next[e] += __popc(all);
    }
  }
}

/// Row i is the i-th pair of the order: reads row pair / divisor of x, writes row pair of y.
template <class T>
struct PairRows {
  MatrixView<const T> x;
  const std::int32_t* pairs;
  int divisor;

  __device__ const T* x_row(std::int64_t i) const {
    return x.base + std::int64_t{pairs[i] / divisor} * x.pitch.n;
  }
  __device__ std::int64_t y_row(std::int64_t i) const { return pairs[i]; }
};

/// y[pair] = w_e x[pair / divisor], expert e's weights being rows e * columns … of w.
template <class Core, class T>
__global__ void __launch_bounds__(Core::kThreads, 2)
    expert_gemm_kernel(MatrixView<T> y, MatrixView<const T> x, MatrixView<const T> w, ExpertOrder order,
                       int divisor) {
  const unsigned across = blocks_of(y.cols.n, Core::kBlockN);
  TileRows tile;
  int expert = 0;
  if (!order.find_tile<Core::kBlockM>(blockIdx.x / across, tile, expert)) return;  // the whole block
  tile.first_weight = expert * y.cols.n;
  multiply_tile<Core>(PairRows<T>{x, order.pairs, divisor}, tile, static_cast<int>(blockIdx.x % across),
                      y.cols.n, w, y);
}

template <class Core, class T>
gpu::Status multiply(Context& context, const char* what, const MatrixView<T>& y, const ConstMatrix& x,
                     const ConstMatrix& w, const ExpertOrder& order, int divisor) {
  const Grid grid{{blocks_of(y.cols.n, Core::kBlockN) *
                   to_grid(ExpertOrder::max_tiles(y.rows.n, order.num_experts, Core::kBlockM))},
                  {Core::kThreads},
                  Core::kSharedBytes};
  return launch(context.stream, what, grid, expert_gemm_kernel<Core, T>, y, gpu::typed<T>(x),
                gpu::typed<T>(w), order, divisor);
}

/// While experts have few pairs each, tiles of few rows: every chosen expert's weights are then read about
/// once.
template <class T>
gpu::Status multiply_pairs(Context& context, const char* what, const MatrixView<T>& y, const ConstMatrix& x,
                           const ConstMatrix& w, const ExpertOrder& order, int divisor) {
  const std::int64_t pairs_per_expert = y.rows.n / order.num_experts;
  if constexpr (sizeof(T) == 4) {
    if (pairs_per_expert <= 16) return multiply<FmaFewRows, T>(context, what, y, x, w, order, divisor);
    return multiply<FmaManyRows, T>(context, what, y, x, w, order, divisor);
  } else {
    if (pairs_per_expert <= 8) return multiply<MmaFewRows, T>(context, what, y, x, w, order, divisor);
    if (pairs_per_expert <= 64) return multiply<MmaSomeRows, T>(context, what, y, x, w, order, divisor);
    return multiply<MmaManyRows, T>(context, what, y, x, w, order, divisor);
  }
}

/// hidden[pair, i] = silu(gate) * up, in place over gate; both begin on 16-byte boundaries.
template <class T>
__global__ void expert_swiglu_kernel(MatrixView<T> hidden, std::int64_t inner) {
  const std::int64_t column = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * kPer16<T>;
  if (column >= inner) return;
  for (std::int64_t r = blockIdx.y; r < hidden.rows.n; r += gridDim.y) {
    T* const gate = hidden.base + r * hidden.pitch.n + column;
    float a[kPer16<T>], b[kPer16<T>];
    load_16(static_cast<const T*>(gate), a);
    load_16(static_cast<const T*>(gate + inner), b);
#pragma unroll
    for (int i = 0; i < kPer16<T>; ++i) a[i] = silu(a[i]) * b[i];
    store_16(gate, a);
  }
}

/// y[r] = sum over slots, ascending, of weight * out[r, slot]. One thread a 16-byte piece (kWide), or a
/// value.
template <class T, bool kWide>
__global__ void expert_sum_kernel(MatrixView<T> y, MatrixView<const T> out, MatrixView<const float> weights) {
  constexpr int kStep = kWide ? kPer16<T> : 1;
  const std::int64_t column = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * kStep;
  if (column >= y.cols.n) return;
  const int top_k = static_cast<int>(weights.cols.n);
  for (std::int64_t r = blockIdx.y; r < y.rows.n; r += gridDim.y) {
    float sum[kStep] = {};
#pragma unroll 4
    for (int slot = 0; slot < top_k; ++slot) {
      const float weight = weights.base[r * weights.pitch.n + slot];
      const T* const from = out.base + (r * top_k + slot) * out.pitch.n + column;
      float value[kStep];
      if constexpr (kWide) {
        load_16(from, value);
      } else {
        value[0] = to_float(*from);
      }
#pragma unroll
      for (int i = 0; i < kStep; ++i) sum[i] = fmaf(weight, value[i], sum[i]);
    }
    T* const to = y.base + r * y.pitch.n + column;
    if constexpr (kWide) {
      store_16(to, sum);
    } else {
      *to = from_float<T>(sum[0]);
    }
  }
}

constexpr int kThreads = 128;

Grid grid_of(std::int64_t rows, std::int64_t pieces) {
  return {{to_grid(gpu::ceil_div(pieces, kThreads)), to_grid(std::min<std::int64_t>(rows, 65535))},
          {kThreads}};
}

template <class T>
gpu::Status run(Context& context, const MoeExpertsArgs& args) {
  const int top_k = static_cast<int>(args.ids.cols.n);
  const Rows num_pairs{args.x.rows.n * top_k};
  std::int32_t* const start = args.order.base;
  std::int32_t* const pairs = start + args.num_experts + 1;
  const ExpertOrder order{start, pairs, args.num_experts};
  RETURN_IF_ERROR(launch(context.stream, "moe_experts order",
                         {{to_grid(gpu::ceil_div(args.num_experts, kExpertsPerBlock))}, {kOrderThreads}},
                         order_kernel, start, pairs, args.ids, args.num_experts, context.stream.faults()));

  const std::int64_t inner = args.intermediate;
  const Matrix hidden = args.hidden.first_rows(num_pairs).columns(Elements{0}, Elements{2 * inner});
  RETURN_IF_ERROR(multiply_pairs(context, "moe_experts gate_up", gpu::typed<T>(hidden), args.x,
                                 args.gate_up.matrix, order, top_k));
  RETURN_IF_ERROR(launch(context.stream, "moe_experts swiglu", grid_of(num_pairs.n, inner / kPer16<T>),
                         expert_swiglu_kernel<T>, gpu::typed<T>(hidden), inner));

  const Matrix out = args.out.first_rows(num_pairs).columns(Elements{0}, args.x.cols);
  RETURN_IF_ERROR(multiply_pairs(context, "moe_experts down", gpu::typed<T>(out),
                                 hidden.columns(Elements{0}, Elements{inner}), args.down.matrix, order, 1));
  const bool wide = in_16_bytes(args.y) && in_16_bytes(out);
  return launch(context.stream, "moe_experts sum",
                grid_of(args.x.rows.n, gpu::ceil_div(args.x.cols.n, wide ? kPer16<T> : 1)),
                wide ? expert_sum_kernel<T, true> : expert_sum_kernel<T, false>, gpu::typed<T>(args.y),
                gpu::typed<T>(ConstMatrix(out)), args.weights);
}

gpu::Status unsupported(const MoeExpertsArgs& args, const char* operand, const Weight& w) {
  const std::string type =
      w.is_quantized() ? std::string(to_string(w.quantized.format)) : std::string(to_string(w.matrix.dtype));
  return gpu::refused(std::string("moe_experts: x ") + std::string(to_string(args.x.dtype)) + " with " +
                      operand + " " + type +
                      " is not a product of the CUDA backend (bf16 with bf16, f32 with f32)");
}

}  // namespace

gpu::Status moe_experts(Context& context, const MoeExpertsArgs& args) {
  if (args.x.rows.n == 0) return gpu::Done{};
  const auto fits = [&](const Weight& w) { return !w.is_quantized() && w.matrix.dtype == args.x.dtype; };
  if (!fits(args.gate_up)) return unsupported(args, "gate_up", args.gate_up);
  if (!fits(args.down)) return unsupported(args, "down", args.down);
  return with_activation(args.x.dtype, [&](auto zero) { return run<decltype(zero)>(context, args); });
}

}  // namespace kernels::cuda
