#include "kernels/cuda/device/faults.cuh"
#include "kernels/cuda/device/sampling_row.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/sampling_steps.h"

namespace kernels::cuda {
namespace {

constexpr int kScanThreads = 512;

struct BrokenParam {
  gpu::ValueFault fault = gpu::ValueFault::none;
  std::int64_t value = 0;
};

__device__ bool within(std::int64_t first, std::int64_t count, std::int64_t size) {
  return count == 0 || (first >= 0 && count >= 0 && first + count <= size);
}

/// What indexes memory and is no list.
__device__ BrokenParam broken_place(const SampleArgs& args, const RowSampling& p) {
  using gpu::ValueFault;
  if (p.slot < 0 || p.slot >= args.ids.rows.n) return {ValueFault::sampling_slot, p.slot};
  if (p.position < 0) return {ValueFault::sampling_slot, p.position};
  if (!within(p.first_bias, p.num_biases, args.biases.size.n))
    return {ValueFault::sampling_slot, p.first_bias};
  if (!within(p.first_ban, p.num_bans, args.bans.size.n)) return {ValueFault::sampling_slot, p.first_ban};
  if (p.given_token >= args.logits.cols.n) return {ValueFault::sampling_token, p.given_token};
  return {};
}

/// By the whole block: true when the row can be sampled; else the fault was reported.
__device__ bool check_params(const SampleArgs& args, std::int64_t r, gpu::FaultRecord* faults) {
  const RowSampling& p = args.params.base[r];
  const BrokenParam place = broken_place(args, p);  // the same in every thread
  if (place.fault != gpu::ValueFault::none) {
    if (threadIdx.x == 0) report(faults, place.fault, r, place.value);
    return false;
  }
  bool usable = true;
  const auto check_token = [&](std::int32_t token) {
    if (token >= 0 && token < args.logits.cols.n) return;
    usable = false;
    report(faults, gpu::ValueFault::sampling_token, r, token);
  };
  for (int i = static_cast<int>(threadIdx.x); i < p.num_biases; i += kScanThreads)
    check_token(args.biases.base[p.first_bias + i].token);
  for (int i = static_cast<int>(threadIdx.x); i < p.num_bans; i += kScanThreads)
    check_token(args.bans.base[p.first_ban + i]);
  return __syncthreads_and(usable ? 1 : 0) != 0;
}

/// A block a part of a row, a row's parts in a line. Bytes: the logits once, and the copy of a row that will be adjusted. The one pass that
/// a greedy row without logprobs needs.
__global__ void __launch_bounds__(kScanThreads) scan_kernel(SampleArgs args, gpu::FaultRecord* faults) {
  __shared__ Sum shared[kScanThreads / 32];
  const int part = static_cast<int>(blockIdx.x % kScanParts);
  const std::int64_t r = blockIdx.x / kScanParts;
  const int vocab = static_cast<int>(args.logits.cols.n);
  const int part_size = (vocab + 4 * kScanParts - 1) / (4 * kScanParts) * 4;
  const int first = min(part * part_size, vocab);
  const int last = min(first + part_size, vocab);
  SampledRow& out = args.out.base[r];
  if (part == 0) {
    const bool usable = check_params(args, r, faults);
    if (threadIdx.x == 0) out.num_top = usable ? 1 : 0;
  }

  float* const copy = is_adjusted(args.params.base[r]) ? args.scratch.row(Rows{r}) : nullptr;
  bool usable = true;
  Sum best = 0;
  for_each_logit<kScanThreads>(args.logits.row(Rows{r}), first, last, [&](int id, float logit) {
    usable = usable && logit < INFINITY;  // false for NaN too
    const Sum candidate = ranked(logit, id);
    best = candidate > best ? candidate : best;
    if (copy != nullptr) copy[id] = logit;
  });
  usable = __syncthreads_and(usable ? 1 : 0) != 0;
  best = block_largest<kScanThreads>(best, shared);
  if (threadIdx.x != 0) return;
  out.top_logprobs[part] = first < last ? logit_of_ranked(best) : kNoLogit;
  out.top_tokens[part] = !usable ? kUnusable : first < last ? id_of_ranked(best) : INT32_MAX;
}

}  // namespace

gpu::Status scan_rows(Context& context, const SampleArgs& args) {
  const Grid grid{{to_grid(kScanParts * args.logits.rows.n)}, {kScanThreads}};
  return launch(context.stream, "sample", grid, scan_kernel, args, context.stream.faults());
}

gpu::Status sample(Context& context, const SampleArgs& args) {
  RETURN_IF_ERROR(scan_rows(context, args));
  RETURN_IF_ERROR(adjust_rows(context, args));
  return choose_rows(context, args);
}

}  // namespace kernels::cuda
