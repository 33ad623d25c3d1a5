#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/philox.h"
#include "kernels/cpu/targets.h"
#include "kernels/cpu/tiles.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/sampling.cpp"
#include "hwy/foreach_target.h"
#include "kernels/cpu/lanes-inl.h"

// One row's sampling, in the order of kernels/sampling.h. A row's temporaries are its scratch row and one
// thread's reusable vectors.
HWY_BEFORE_NAMESPACE();
namespace kernels::cpu {
namespace HWY_NAMESPACE {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Candidate {
  float logit;
  std::int32_t id;
  float weight = 0.0F;
};
/// Larger logit first; equal ones by lower id.
inline bool before(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

/// Reused by every row that a thread samples; grows to the vocabulary.
struct Temporaries {
  std::vector<Candidate> candidates;
  std::vector<std::int32_t> of_token;  // all zero between rows
  std::vector<std::int32_t> seen;
};
inline Temporaries& temporaries() {
  thread_local Temporaries own;
  return own;
}

/// False when a value is NaN or +infinity.
inline bool all_usable(const float* logits, std::int64_t vocab) {
  Lanes16 largest = splat(-kInfinity);
  Lanes16 poison = zero();  // a lane that met a NaN keeps it
  for_lanes(vocab, [&](auto at, std::int64_t i) HWY_ATTR {
    const Lanes16 v = at.load(logits + i);
    largest = max(largest, v);
    poison = keep_nan(poison, v);
  });
  return !std::isnan(sum(poison)) && max_lane(largest) < kInfinity;
}

constexpr std::int64_t kScan = 256;

/// The largest of logits[first … first + n), n <= kScan.
inline float largest_of(const float* logits, std::int64_t n) {
  Lanes16 largest = splat(-kInfinity);
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) largest = max(largest, load(logits + i));
  float result = max_lane(largest);
  for (; i < n; ++i) result = std::max(result, logits[i]);
  return result;
}

/// The largest logit, at its lowest id.
inline Candidate argmax(const float* logits, std::int64_t vocab) {
  float best = -kInfinity;
  std::int64_t block = 0;
  for (std::int64_t i = 0; i < vocab; i += kScan) {
    const float largest = largest_of(logits + i, std::min(kScan, vocab - i));
    if (largest > best) {
      best = largest;
      block = i;
    }
  }
  std::int64_t id = block;
  while (logits[id] != best) ++id;
  return {logits[id], static_cast<std::int32_t>(id)};
}

/// The k first in the order of `before`, in that order. A heap of the best so far; blocks without a better
/// value are skipped whole.
inline void top_of(const float* logits, std::int64_t vocab, std::int64_t k, std::vector<Candidate>& top) {
  top.clear();
  k = std::min(k, vocab);
  if (k <= 0) return;
  std::int64_t i = 0;
  for (; i < k; ++i) top.push_back({logits[i], static_cast<std::int32_t>(i)});
  std::make_heap(top.begin(), top.end(), before);  // front: the last of the kept ones
  while (i < vocab) {
    const std::int64_t n = std::min(kScan, vocab - i);
    if (largest_of(logits + i, n) > top.front().logit) {
      for (std::int64_t j = i; j < i + n; ++j) {
        if (logits[j] <= top.front().logit) continue;  // an equal one has the higher id
        std::pop_heap(top.begin(), top.end(), before);
        top.back() = {logits[j], static_cast<std::int32_t>(j)};
        std::push_heap(top.begin(), top.end(), before);
      }
    }
    i += n;
  }
  std::sort_heap(top.begin(), top.end(), before);
}

/// sum_i e^((x_i - shift) / temperature), in sixteen lanes.
inline float sum_of_exps(const float* x, std::int64_t n, float shift, float temperature) {
  const Lanes16 by = splat(shift), t = splat(temperature);
  Lanes16 acc = zero();
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) acc = add(acc, exp(div(sub(load(x + i), by), t)));
  if (i < n) {
    alignas(64) float rest[kLanes];
    std::fill(rest, rest + kLanes, -kInfinity);
    std::copy(x + i, x + n, rest);
    acc = add(acc, exp(div(sub(load(rest), by), t)));
  }
  return sum(acc);
}

void write_logprobs(const float* logits, std::int64_t vocab, std::int32_t wanted, SampledRow& out) {
  const std::int64_t num_top = std::min<std::int64_t>({wanted, kMaxTopLogprobs, vocab});
  const float largest = argmax(logits, vocab).logit;
  const float total = std::log(sum_of_exps(logits, vocab, largest, 1.0F)) + largest;
  out.logprob = logits[out.token] - total;
  auto& top = temporaries().candidates;
  top_of(logits, vocab, num_top, top);
  out.num_top = static_cast<std::int32_t>(num_top);
  for (std::size_t i = 0; i < top.size(); ++i) {
    out.top_tokens[i] = top[i].id;
    out.top_logprobs[i] = top[i].logit - total;
  }
}

inline bool has_penalty(const RowSampling& p) {
  return p.presence_penalty != 0.0F || p.frequency_penalty != 0.0F || p.repetition_penalty != 1.0F;
}

/// One slot's part of PenaltyCounts.
struct SlotCounts {
  std::int32_t* of_token;
  std::int32_t* seen;
  std::int32_t& counted;
  std::int32_t& num_seen;
};

/// Counts the ids from `counted` to `num_ids`.
void count_ids(const RowSampling& p, const std::int32_t* ids, std::int32_t num_ids, std::int64_t vocab,
               SlotCounts& counts) {
  if (counts.counted > num_ids) counts.counted = 0;
  if (counts.counted == 0) {
    for (std::int32_t i = 0; i < counts.num_seen; ++i) counts.of_token[counts.seen[i]] = 0;
    counts.num_seen = 0;
  }
  for (std::int32_t i = counts.counted; i < num_ids; ++i) {
    if (ids[i] < 0 || ids[i] >= vocab) continue;
    std::int32_t& count = counts.of_token[ids[i]];
    if (count == 0) counts.seen[counts.num_seen++] = ids[i];
    if (i < p.prompt_tokens) {
      count |= PenaltyCounts::kInPrompt;
    } else {
      ++count;
    }
  }
  counts.counted = num_ids;
}

/// Repetition over prompt and generated ids, then frequency and presence over generated ids.
void penalise(const RowSampling& p, const SlotCounts& counts, float* logits) {
  for (std::int32_t i = 0; i < counts.num_seen; ++i) {
    float& logit = logits[counts.seen[i]];
    if (p.repetition_penalty != 1.0F)
      logit = logit > 0.0F ? logit / p.repetition_penalty : logit * p.repetition_penalty;
    const std::int32_t generated = counts.of_token[counts.seen[i]] & ~PenaltyCounts::kInPrompt;
    if (generated > 0) logit -= p.frequency_penalty * static_cast<float>(generated) + p.presence_penalty;
  }
}

/// The slot's row of `ids` holds the row's `position` first tokens.
void apply_penalties(const SampleArgs& args, const RowSampling& p, float* logits) {
  const std::int64_t vocab = args.logits.cols.n;
  const std::int32_t* ids = args.ids.row(Rows{p.slot});
  const auto num_ids = static_cast<std::int32_t>(std::min<std::int64_t>(p.position, args.ids.cols.n));
  if (args.counts.of_token.base != nullptr) {
    SlotCounts counts{args.counts.of_token.row(Rows{p.slot}), args.counts.seen.row(Rows{p.slot}),
                      args.counts.counted.base[p.slot], args.counts.num_seen.base[p.slot]};
    count_ids(p, ids, num_ids, vocab, counts);
    return penalise(p, counts, logits);
  }
  auto& own = temporaries();
  own.of_token.resize(std::max(own.of_token.size(), static_cast<std::size_t>(vocab)), 0);
  own.seen.resize(std::max(own.seen.size(), static_cast<std::size_t>(num_ids)));
  std::int32_t counted = 0;
  std::int32_t num_seen = 0;
  SlotCounts counts{own.of_token.data(), own.seen.data(), counted, num_seen};
  count_ids(p, ids, num_ids, vocab, counts);
  penalise(p, counts, logits);
  for (std::int32_t i = 0; i < num_seen; ++i) counts.of_token[counts.seen[i]] = 0;
}

/// weights[i] = e^((logits[i] - largest) / temperature); the largest logit weighs 1. `weights` may be
/// `logits`.
void weigh(const float* logits, std::int64_t n, float largest, const RowSampling& p, float* weights) {
  const Lanes16 shift = splat(largest), temperature = splat(p.temperature);
  for_lanes(n, [&](auto at, std::int64_t i) HWY_ATTR {
    at.store(exp(div(sub(at.load(logits + i), shift), temperature)), weights + i);
  });
}

/// Keeps how many candidates, in the order of `before`, reach `wanted` together: at least one, all when they
/// do not. Halving sorts only the range in which the prefix ends, so a flat distribution costs no full sort.
void keep_prefix(std::vector<Candidate>& candidates, double wanted) {
  auto low = candidates.begin(), high = candidates.end();
  double reached = 0.0;  // of all before `low`
  while (high - low > 64) {
    const auto middle = low + (high - low) / 2;
    std::nth_element(low, middle, high, before);
    double half = 0.0;
    for (auto c = low; c != middle; ++c) half += static_cast<double>(c->weight);
    if (reached + half >= wanted) {
      high = middle;
    } else {
      reached += half;
      low = middle;
    }
  }
  std::sort(low, high, before);
  while (low != high && (low == candidates.begin() || reached < wanted))
    reached += static_cast<double>((low++)->weight);
  candidates.erase(low, candidates.end());
}

/// Walks candidates in ascending id until their weights exceed u of the total. The largest is among them.
std::int32_t draw_candidate(std::vector<Candidate>& candidates, const RowSampling& p, double u) {
  std::erase_if(candidates, [&](const Candidate& c) { return c.weight < std::min(p.min_p, 1.0F); });
  std::sort(candidates.begin(), candidates.end(),
            [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
  double total = 0.0;
  for (const Candidate& c : candidates) total += static_cast<double>(c.weight);
  double reached = 0.0;
  std::size_t i = 0;
  do {
    reached += static_cast<double>(candidates[i++].weight);
  } while (i < candidates.size() && reached <= u * total);
  return candidates[i - 1].id;
}

inline float sum_of(const float* x, std::int64_t n) {
  Lanes16 acc = zero();
  for_lanes(n, [&](auto at, std::int64_t i) HWY_ATTR { acc = add(acc, at.load(x + i)); });
  return sum(acc);
}

/// The same walk over a whole vocabulary: whole blocks first, then the tokens of the block in which the sum
/// is exceeded.
std::int32_t draw_of_all(float* weights, std::int64_t vocab, const RowSampling& p, double u) {
  if (p.min_p > 0.0F)
    std::replace_if(
        weights, weights + vocab, [&](float w) { return w < std::min(p.min_p, 1.0F); }, 0.0F);
  double total = 0.0;
  for (std::int64_t i = 0; i < vocab; i += kScan)
    total += static_cast<double>(sum_of(weights + i, std::min(kScan, vocab - i)));
  double before_block = 0.0;
  std::int64_t drawn = 0;  // the last token with a weight, should rounding keep the sum from being exceeded
  for (std::int64_t i = 0; i < vocab; i += kScan) {
    const std::int64_t n = std::min(kScan, vocab - i);
    const double after_block = before_block + static_cast<double>(sum_of(weights + i, n));
    if (after_block > u * total) {
      double reached = before_block;
      for (std::int64_t j = i; j < i + n; ++j) {
        reached += static_cast<double>(weights[j]);
        if (weights[j] > 0.0F) drawn = j;
        if (reached > u * total) break;
      }
      break;
    }
    before_block = after_block;
  }
  return static_cast<std::int32_t>(drawn);
}

/// `weights` is the row's scratch; it may be `logits`.
std::int32_t draw_token(const float* logits, float* weights, std::int64_t vocab, float largest,
                        const RowSampling& p) {
  const double u = uniform(p.seed, p.position);
  auto& candidates = temporaries().candidates;
  if (p.top_k > 0 && p.top_k < vocab) {
    top_of(logits, vocab, p.top_k, candidates);
    double total = 0.0;
    for (Candidate& c : candidates) {
      c.weight = exp1((c.logit - largest) / p.temperature);
      total += static_cast<double>(c.weight);
    }
    if (p.top_p < 1.0F) keep_prefix(candidates, static_cast<double>(p.top_p) * total);
    return draw_candidate(candidates, p, u);
  }
  if (p.top_p < 1.0F) {
    // What weighs less than an even share of the rest beyond top_p cannot be needed: all such tokens together
    // stay below that rest.
    const double total = static_cast<double>(sum_of_exps(logits, vocab, largest, p.temperature));
    const auto least =
        static_cast<float>((1.0 - static_cast<double>(p.top_p)) * total / static_cast<double>(vocab) * 0.999);
    candidates.clear();
    float block_weights[kScan];
    for (std::int64_t first = 0; first < vocab; first += kScan) {
      const std::int64_t n = std::min(kScan, vocab - first);
      weigh(logits + first, n, largest, p, block_weights);
      for (std::int64_t i = 0; i < n; ++i) {
        if (block_weights[i] >= std::min(least, 1.0F))
          candidates.push_back({logits[first + i], static_cast<std::int32_t>(first + i), block_weights[i]});
      }
    }
    keep_prefix(candidates, static_cast<double>(p.top_p) * total);
    return draw_candidate(candidates, p, u);
  }
  weigh(logits, vocab, largest, p, weights);
  return draw_of_all(weights, vocab, p, u);
}

void sample_row(const SampleArgs& args, std::int64_t r) {
  const RowSampling& p = args.params.base[r];
  SampledRow& out = args.out.base[r];
  const std::int64_t vocab = args.logits.cols.n;
  const float* raw = args.logits.row(Rows{r});
  out = SampledRow{};
  if (!all_usable(raw, vocab)) {
    out.finite = 0;
    return;
  }
  if (p.given_token >= 0) {
    out.token = p.given_token;
    if (p.num_logprobs >= 0) write_logprobs(raw, vocab, p.num_logprobs, out);
    return;
  }
  const float* logits = raw;
  float* scratch = args.scratch.row(Rows{r});
  if (p.num_biases > 0 || p.num_bans > 0 || has_penalty(p)) {
    std::copy(raw, raw + vocab, scratch);
    for (std::int32_t i = 0; i < p.num_biases; ++i) {
      const TokenBias& bias = args.biases.base[p.first_bias + i];
      scratch[bias.token] += bias.bias;
    }
    for (std::int32_t i = 0; i < p.num_bans; ++i) scratch[args.bans.base[p.first_ban + i]] = -kInfinity;
    if (has_penalty(p)) apply_penalties(args, p, scratch);
    logits = scratch;
  }
  const Candidate best = argmax(logits, vocab);
  if (best.logit == -kInfinity) {  // nothing is left to choose from
    out.finite = 0;
    return;
  }
  out.token = p.temperature > 0.0F ? draw_token(logits, scratch, vocab, best.logit, p) : best.id;
  if (p.num_logprobs >= 0) write_logprobs(raw, vocab, p.num_logprobs, out);
}

gpu::Status sample_impl(gpu::HostStream& stream, const SampleArgs& args) {
  const double cost = static_cast<double>(args.logits.cols.n) * 0.5;
  return parallel_ranges(stream, "sample", args.logits.rows.n, cost,
                         [&](std::int64_t first, std::int64_t last) {
                           for (std::int64_t r = first; r < last; ++r) sample_row(args, r);
                         });
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kernels::cpu {
HWY_EXPORT(sample_impl);

namespace {

bool within(std::int64_t first, std::int64_t count, std::int64_t size) {
  return count == 0 || (first >= 0 && count >= 0 && first + count <= size);
}

/// Values that index memory, checked before anything is written.
const char* broken_param(const SampleArgs& args, const RowSampling& p) {
  const std::int64_t vocab = args.logits.cols.n;
  if (p.slot < 0 || p.slot >= args.ids.rows.n) return "slot";
  if (p.position < 0) return "position";
  if (p.given_token >= vocab) return "given token";
  if (!within(p.first_bias, p.num_biases, args.biases.size.n)) return "biases";
  if (!within(p.first_ban, p.num_bans, args.bans.size.n)) return "bans";
  for (std::int32_t i = 0; i < p.num_biases; ++i) {
    const std::int32_t token = args.biases.base[p.first_bias + i].token;
    if (token < 0 || token >= vocab) return "bias token";
  }
  for (std::int32_t i = 0; i < p.num_bans; ++i) {
    const std::int32_t token = args.bans.base[p.first_ban + i];
    if (token < 0 || token >= vocab) return "banned token";
  }
  return nullptr;
}

}  // namespace

gpu::Status sample(gpu::HostStream& stream, const SampleArgs& args) {
  for (std::int64_t r = 0; r < args.logits.rows.n; ++r) {
    if (const char* broken = broken_param(args, args.params.base[r])) {
      return gpu::refused("sample: row " + std::to_string(r) + ": " + broken + " out of range");
    }
  }
  RETURN_IF_ERROR(HWY_DYNAMIC_DISPATCH(sample_impl)(stream, args));
  // After every row has read its sequence's ids: rows of one sequence sample consecutive positions.
  for (std::int64_t r = 0; r < args.logits.rows.n; ++r) {
    const RowSampling& p = args.params.base[r];
    if (p.position < args.ids.cols.n && args.out.base[r].finite != 0)
      args.ids.row(Rows{p.slot})[p.position] = args.out.base[r].token;
  }
  return gpu::Done{};
}

}  // namespace kernels::cpu
#endif
