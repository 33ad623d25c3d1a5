#include "kernels/cuda/device/sampling_row.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/sampling_steps.h"

namespace kernels::cuda {
namespace {

constexpr int kThreads = 512;

/// Counts of this many tokens at a time fit shared memory (64 KB), where no PenaltyCounts are kept.
constexpr int kCountedTokens = 16384;

/// Every bias in its order, then the bans. A token's biases are added by one thread, so several for one token
/// add up in their order.
__device__ void bias_and_ban(const SampleArgs& args, const RowSampling& p, float* logits) {
  for (int i = 0; i < p.num_biases; ++i) {
    const TokenBias bias = args.biases.base[p.first_bias + i];
    if (bias.token % kThreads == static_cast<int>(threadIdx.x)) logits[bias.token] += bias.bias;
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < p.num_bans; i += kThreads)
    logits[args.bans.base[p.first_ban + i]] = kNoLogit;
  __syncthreads();
}

/// Repetition over prompt and generated ids, then frequency and presence over generated ids.
__device__ float penalised(const RowSampling& p, std::int32_t count, float logit) {
  if (p.repetition_penalty != 1.0F)
    logit = logit > 0.0F ? logit / p.repetition_penalty : logit * p.repetition_penalty;
  const std::int32_t generated = count & ~PenaltyCounts::kInPrompt;
  if (generated > 0) logit -= p.frequency_penalty * static_cast<float>(generated) + p.presence_penalty;
  return logit;
}

/// Adds the id at position i to its count; what the count was.
__device__ std::int32_t count_id(const RowSampling& p, std::int32_t i, std::int32_t* count) {
  return i < p.prompt_tokens ? atomicOr(count, PenaltyCounts::kInPrompt) : atomicAdd(count, 1);
}

__device__ std::int32_t num_ids_of(const SampleArgs& args, const RowSampling& p) {
  return p.position < args.ids.cols.n ? p.position : static_cast<std::int32_t>(args.ids.cols.n);
}

/// Penalties from counts kept between calls: what came since is counted, then every token ever seen is
/// penalised.
__device__ void penalise_from_counts(const SampleArgs& args, const RowSampling& p, float* logits,
                                     std::int32_t& num_seen) {
  const std::int64_t vocab = args.logits.cols.n;
  const std::int32_t* const ids = args.ids.row(Rows{p.slot});
  std::int32_t* const of_token = args.counts.of_token.row(Rows{p.slot});
  std::int32_t* const seen = args.counts.seen.row(Rows{p.slot});
  const std::int32_t num_ids = num_ids_of(args, p);
  std::int32_t counted = args.counts.counted.base[p.slot];
  if (counted > num_ids) counted = 0;
  const std::int32_t kept = args.counts.num_seen.base[p.slot];
  if (counted == 0) {
    for (int i = static_cast<int>(threadIdx.x); i < kept; i += kThreads) of_token[seen[i]] = 0;
  }
  if (threadIdx.x == 0) num_seen = counted == 0 ? 0 : kept;
  __syncthreads();
  for (std::int32_t i = counted + static_cast<std::int32_t>(threadIdx.x); i < num_ids; i += kThreads) {
    if (ids[i] < 0 || ids[i] >= vocab) continue;
    if (count_id(p, i, of_token + ids[i]) == 0) seen[atomicAdd(&num_seen, 1)] = ids[i];
  }
  __syncthreads();
  const std::int32_t num_tokens = num_seen;
  for (int i = static_cast<int>(threadIdx.x); i < num_tokens; i += kThreads)
    logits[seen[i]] = penalised(p, of_token[seen[i]], logits[seen[i]]);
  if (threadIdx.x == 0) {
    args.counts.counted.base[p.slot] = num_ids;
    args.counts.num_seen.base[p.slot] = num_tokens;
  }
  __syncthreads();
}

/// Penalties of a row that counts all its ids, one range of the vocabulary after the other.
__device__ void penalise_anew(const SampleArgs& args, const RowSampling& p, float* logits,
                              std::int32_t* counts) {
  const int vocab = static_cast<int>(args.logits.cols.n);
  const std::int32_t* const ids = args.ids.row(Rows{p.slot});
  const std::int32_t num_ids = num_ids_of(args, p);
  for (int first = 0; first < vocab; first += kCountedTokens) {
    const int size = min(kCountedTokens, vocab - first);
    for (int t = static_cast<int>(threadIdx.x); t < size; t += kThreads) counts[t] = 0;
    __syncthreads();
    for (std::int32_t i = static_cast<std::int32_t>(threadIdx.x); i < num_ids; i += kThreads) {
      const std::int64_t t = std::int64_t{ids[i]} - first;
      if (ids[i] >= 0 && t >= 0 && t < size) count_id(p, i, counts + t);
    }
    __syncthreads();
    for (int t = static_cast<int>(threadIdx.x); t < size; t += kThreads) {
      if (counts[t] != 0) logits[first + t] = penalised(p, counts[t], logits[first + t]);
    }
    __syncthreads();
  }
}

constexpr Sum kNoRow = ~Sum{0};

/// A row's turn among the rows of its slot: by position, then row.
__device__ Sum turn_of(const RowSampling& p, std::int64_t r) {
  return Sum{static_cast<std::uint32_t>(p.position)} << 32 | static_cast<Sum>(r);
}

__device__ bool is_penalised(const SampleArgs& args, std::int64_t r) {
  const RowSampling& p = args.params.base[r];
  const SampledRow& scanned = args.out.base[r];
  return p.given_token < 0 && has_penalty(p) && has_usable_params(scanned) && has_usable_logits(scanned);
}

/// The first turn from `from` on among the penalised rows of a slot, or kNoRow. By the whole block.
__device__ Sum next_turn(const SampleArgs& args, std::int32_t slot, Sum from, Sum* shared) {
  Sum next = kNoRow;
  for (std::int64_t r = threadIdx.x; r < args.logits.rows.n; r += kThreads) {
    const RowSampling& p = args.params.base[r];
    if (p.slot != slot) continue;
    const Sum turn = turn_of(p, r);
    if (turn >= from && turn < next && is_penalised(args, r)) next = turn;
  }
  return block_combine<kThreads>(next, shared, [](Sum a, Sum b) { return a < b ? a : b; });
}

/// One block a row, gone at once where nothing changes. Rows of one slot (a verify step's) share its
/// counts: the block of the first takes them all, in the order of their positions.
__global__ void __launch_bounds__(kThreads) adjust_kernel(SampleArgs args) {
  __shared__ Sum shared[kThreads / 32];
  __shared__ std::int32_t num_seen;
  const std::int64_t r = blockIdx.x;
  const RowSampling& p = args.params.base[r];
  const SampledRow& scanned = args.out.base[r];
  if (!is_adjusted(p) || !has_usable_params(scanned) || !has_usable_logits(scanned)) return;
  if (!has_penalty(p)) return bias_and_ban(args, p, args.scratch.row(Rows{r}));
  if (args.counts.of_token.base == nullptr) {
    bias_and_ban(args, p, args.scratch.row(Rows{r}));
    return penalise_anew(args, p, args.scratch.row(Rows{r}),
                         reinterpret_cast<std::int32_t*>(dynamic_shared()));
  }
  Sum turn = next_turn(args, p.slot, 0, shared);
  if (turn != turn_of(p, r)) return;
  while (turn != kNoRow) {
    const auto row = static_cast<std::int64_t>(turn & 0xFFFFFFFFU);
    const RowSampling& of_row = args.params.base[row];
    float* const logits = args.scratch.row(Rows{row});
    bias_and_ban(args, of_row, logits);
    penalise_from_counts(args, of_row, logits, num_seen);
    turn = next_turn(args, p.slot, turn + 1, shared);
  }
}

}  // namespace

gpu::Status adjust_rows(Context& context, const SampleArgs& args) {
  const bool counts_anew = args.counts.of_token.base == nullptr;
  const Grid grid{{to_grid(args.logits.rows.n)},
                  {kThreads},
                  counts_anew ? kCountedTokens * std::int64_t{sizeof(std::int32_t)} : 0};
  return launch(context.stream, "sample", grid, adjust_kernel, args);
}

}  // namespace kernels::cuda
