#include "kernels/cuda/device/sampling_select.cuh"
#include "kernels/cuda/device/sampling_weight.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/sampling_steps.h"
#include "kernels/philox.h"

// One block a row. A pass over 248320 logits by one multiprocessor takes some 10 µs, so what follows costs,
// beside the scan: greedy nothing (adjusted: one pass); a draw two passes; top_k three more, top_p four more;
// logprobs one, alternatives four more. Spreading a row's passes over several blocks would bring each to the
// scan's cost.
namespace kernels::cuda {
namespace {

constexpr int kThreads = kSelectThreads;

struct Space {
  SelectSpace select;
  std::int32_t token;
  int num_top;
  Sum top[kMaxTopLogprobs];
};

struct Row {
  const float* logits;
  int vocab;
};

__device__ Sum sum_of_block(Sum x, Space& space) {
  return block_combine<kThreads>(x, space.select.of_warps, [](Sum a, Sum b) { return a + b; });
}
template <class Weight>
__device__ Sum sum_of(const Row& row, const Weight& weight, Space& space) {
  Sum own = 0;
  for_each_logit<kThreads>(row.logits, 0, row.vocab, [&](int id, float logit) { own += weight(id, logit); });
  return sum_of_block(own, space);
}
__device__ Sum best_of(const Row& row, Space& space) {
  Sum best = 0;
  for_each_logit<kThreads>(row.logits, 0, row.vocab, [&](int id, float logit) {
    const Sum candidate = ranked(logit, id);
    best = candidate > best ? candidate : best;
  });
  return block_largest<kThreads>(best, space.select.of_warps);
}

/// floor(total * u) for u = word / 2^32.
__device__ Sum share(Sum total, std::uint32_t word) {
  return word * (total >> 32) + (word * (total & 0xFFFFFFFFU) >> 32);
}

/// Walks ids in ascending order until their weights exceed u of the total: first to the one of 32 ranges in
/// which that happens, a warp each, then into it.
template <class Weight>
__device__ std::int32_t draw(const Row& row, std::uint32_t word, const Weight& weight, Space& space) {
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int lane = static_cast<int>(threadIdx.x % 32);
  int first = 0, last = row.vocab;
  Sum target = 0;  // within the range
  do {
    const int size = (last - first + kSelectWarps - 1) / kSelectWarps;
    const int end = min(first + (warp + 1) * size, last);
    Sum own = 0;
#pragma unroll 8
    for (int id = first + warp * size + lane; id < end; id += 32) own += weight(id, row.logits[id]);
#pragma unroll
    for (int apart = 16; apart > 0; apart /= 2) own += __shfl_xor_sync(kWholeWarp, own, apart);
    __syncthreads();  // whoever still reads the sums of the range before
    if (lane == 0) space.select.of_warps[warp] = own;
    __syncthreads();
    if (last - first == row.vocab) {
      Sum total = 0;
      for (int w = 0; w < kSelectWarps; ++w) total += space.select.of_warps[w];
      target = share(total, word);
    }
    int chosen = 0;
    while (first + (chosen + 1) * size < last && space.select.of_warps[chosen] <= target)
      target -= space.select.of_warps[chosen++];
    first += chosen * size;
    last = min(first + size, last);
  } while (last - first > 1);
  return first;
}

/// What is drawn from: the prefix that top_k and top_p leave of the row's logits.
__device__ Cut prefix_of(const Row& row, const RowSampling& p, const Weighing& weighing, Space& space) {
  Cut cut;  // everything
  if (p.top_k > 0 && p.top_k < row.vocab) {
    const auto one = [](int, float) { return Sum{1}; };
    cut = find_cut(row.logits, row.vocab, static_cast<Sum>(p.top_k), space.select, one);
  }
  if (!(p.top_p < 1.0F)) return cut;
  const auto kept = [&](int id, float logit) {
    return is_kept(cut, key_of(logit), id) ? weighing(id, logit) : 0;
  };
  const Sum total = sum_of(row, kept, space);
  const double wanted = ceil(static_cast<double>(p.top_p) * static_cast<double>(total));
  const Sum reached = wanted < 1.0 ? 1 : min(static_cast<Sum>(wanted), total);
  // All of the cut's last logit take part here: those beyond its last id come after everything that can be
  // needed.
  const auto from_cut_on = [&](int id, float logit) {
    return key_of(logit) >= cut.key ? weighing(id, logit) : 0;
  };
  return find_cut(row.logits, row.vocab, reached, space.select, from_cut_on);
}

__device__ std::int32_t draw_token(const Row& row, const RowSampling& p, float largest, Space& space) {
  Weighing weighing{largest, p.temperature};
  const Cut cut = prefix_of(row, p, weighing, space);
  weighing.least = fminf(p.min_p, 1.0F);
  const auto word = static_cast<std::uint32_t>(uniform(p.seed, p.position) * 0x1p32);
  return draw(
      row, word,
      [&](int id, float logit) { return is_kept(cut, key_of(logit), id) ? weighing(id, logit) : 0; }, space);
}

/// The num_top first of the row, in their order, to space.top.
__device__ void find_top(const Row& row, int num_top, Space& space) {
  const Cut cut = find_cut(row.logits, row.vocab, static_cast<Sum>(num_top), space.select,
                           [](int, float) { return Sum{1}; });
  if (threadIdx.x == 0) space.num_top = 0;
  __syncthreads();
  for_each_logit<kThreads>(row.logits, 0, row.vocab, [&](int id, float logit) {
    if (is_kept(cut, key_of(logit), id)) space.top[atomicAdd(&space.num_top, 1)] = ranked(logit, id);
  });
  __syncthreads();
  const int i = static_cast<int>(threadIdx.x);
  const Sum own = i < num_top ? space.top[i] : 0;
  int place = 0;
  for (int other = 0; other < num_top; ++other) place += space.top[other] > own ? 1 : 0;
  __syncthreads();
  if (i < num_top) space.top[place] = own;
  __syncthreads();
}

/// Of the raw logits. `out` is the row's result, `raw_best` its largest logit.
__device__ void write_logprobs(const Row& raw, float largest, int wanted, SampledRow& out, Space& space) {
  const Sum weights = sum_of(raw, Weighing{largest, 1.0F}, space);
  const float total = largest == kNoLogit ? NAN : logf(static_cast<float>(weights) / kWeightSteps) + largest;
  const int num_top = min(wanted, min(kMaxTopLogprobs, raw.vocab));
  if (num_top > 0) find_top(raw, num_top, space);
  if (threadIdx.x != 0) return;
  out.logprob = raw.logits[out.token] - total;
  out.num_top = num_top;
  for (int i = 0; i < num_top; ++i) {
    out.top_tokens[i] = id_of_ranked(space.top[i]);
    out.top_logprobs[i] = raw.logits[out.top_tokens[i]] - total;
  }
}

/// The row's token, or kUnusable when there is nothing to choose from.
__device__ std::int32_t choose(const SampleArgs& args, std::int64_t r, const SampledRow& scanned,
                               Space& space) {
  const RowSampling& p = args.params.base[r];
  if (!has_usable_params(scanned) || !has_usable_logits(scanned)) return kUnusable;
  if (p.given_token >= 0) return p.given_token;
  const bool adjusted = is_adjusted(p);
  const Row row{adjusted ? args.scratch.row(Rows{r}) : args.logits.row(Rows{r}),
                static_cast<int>(args.logits.cols.n)};
  const Sum best = adjusted ? best_of(row, space) : best_scanned(scanned);
  const float largest = logit_of_ranked(best);
  if (largest == kNoLogit) return kUnusable;
  return p.temperature > 0.0F ? draw_token(row, p, largest, space) : id_of_ranked(best);
}

__global__ void __launch_bounds__(kThreads) choose_kernel(SampleArgs args) {
  constexpr int kWords = sizeof(SampledRow) / sizeof(std::int32_t);
  __shared__ Space space;
  __shared__ std::int32_t scanned_words[kWords], out_words[kWords];
  auto& scanned = *reinterpret_cast<SampledRow*>(scanned_words);
  auto& out = *reinterpret_cast<SampledRow*>(out_words);
  const std::int64_t r = blockIdx.x;
  const RowSampling& p = args.params.base[r];
  SampledRow& result = args.out.base[r];
  const int word = static_cast<int>(threadIdx.x);
  if (word < kWords) out_words[word] = 0;
  if (word < kScanParts) {  // of the result no more is there yet
    scanned.top_tokens[word] = result.top_tokens[word];
    scanned.top_logprobs[word] = result.top_logprobs[word];
  }
  if (word == 0) scanned.num_top = result.num_top;
  __syncthreads();
  const std::int32_t token = choose(args, r, scanned, space);
  if (threadIdx.x == 0 && token != kUnusable) {
    out.token = token;
    out.finite = 1;
    if (p.position < args.ids.cols.n) args.ids.row(Rows{p.slot})[p.position] = token;
  }
  if (token != kUnusable && p.num_logprobs >= 0) {
    const Row raw{args.logits.row(Rows{r}), static_cast<int>(args.logits.cols.n)};
    write_logprobs(raw, logit_of_ranked(best_scanned(scanned)), p.num_logprobs, out, space);
  }
  __syncthreads();
  if (word < kWords) reinterpret_cast<std::int32_t*>(&result)[word] = out_words[word];
}

}  // namespace

gpu::Status choose_rows(Context& context, const SampleArgs& args) {
  const Grid grid{{to_grid(args.logits.rows.n)}, {kThreads}};
  return launch(context.stream, "sample", grid, choose_kernel, args);
}

}  // namespace kernels::cuda
