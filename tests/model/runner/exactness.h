#pragma once

#include <random>

#include "model_rig.h"

/// What the exactness rules are tested with, on every backend.
namespace model::testing {

using State = std::vector<std::pair<std::string, std::vector<float>>>;

/// Bits, not values: NaN equals itself and −0 differs from 0.
inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}
inline void expect_same(const State& a, const State& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].first, b[i].first);
    EXPECT_TRUE(same_bits(a[i].second, b[i].second)) << a[i].first;
  }
}

inline std::vector<TokenId> random_ids(std::mt19937& random, std::size_t count) {
  std::uniform_int_distribution<TokenId> any(0, 255);  // 255 is eos: it cuts n-grams
  std::vector<TokenId> ids(count);
  for (TokenId& id : ids) id = any(random);
  return ids;
}

/// What a sequence leaves behind: the logits of its last prompt row and of some decode rows, and its state.
struct Trace {
  std::vector<float> logits;
  std::vector<TokenId> tokens;
  State state;
};

/// Feeds the prompt cut at `cuts` (ascending, the last is its length), then decodes greedily.
inline Trace trace(ModelRig& rig, StateSlot slot, const std::vector<TokenId>& ids,
                   const std::vector<std::int32_t>& cuts, int decode_steps) {
  Recorder seen(rig);
  rig.runner->set_probe(&seen);
  Trace out;
  Position at = 0;
  for (const std::int32_t cut : cuts) {
    const std::vector<TokenId> part(ids.begin() + at, ids.begin() + cut);
    const auto rows = static_cast<std::int32_t>(part.size());
    const bool last = cut == std::ssize(ids);
    std::vector<StateSlot> resets;
    if (at == 0) resets.push_back(rig.begin(slot));
    const auto sampled =
        rig.run(rig.feed(slot, Form::prefill, at, part, last ? rows - 1 : rows), std::move(resets));
    out.tokens.insert(out.tokens.end(), sampled.begin(), sampled.end());
    at = cut;
  }
  for (int i = 0; i < decode_steps && !out.tokens.empty(); ++i) {
    const auto sampled = rig.run(rig.feed(slot, Form::decode, at++, {out.tokens.back()}, 0));
    out.tokens.insert(out.tokens.end(), sampled.begin(), sampled.end());
  }
  rig.runner->set_probe(nullptr);
  out.logits = seen.floats["logits"];
  out.state = rig.runner->read_state(slot, at);
  return out;
}
inline void expect_same(const Trace& a, const Trace& b) {
  EXPECT_TRUE(same_bits(a.logits, b.logits)) << "logits";
  EXPECT_EQ(a.tokens, b.tokens);
  expect_same(a.state, b.state);
}

inline std::vector<std::int32_t> random_cuts(std::mt19937& random, std::int32_t length) {
  std::vector<std::int32_t> cuts;
  std::int32_t at = 0;
  while (at < length) {
    const std::int32_t left = (length - at + 63) / 64;
    at += 64 * std::uniform_int_distribution<std::int32_t>(1, left)(random);
    cuts.push_back(std::min(at, length));
  }
  return cuts;
}

struct Job {
  std::vector<TokenId> ids;
  Position fed = 0;
  Trace out;
  bool prefilling() const { return fed < std::ssize(ids); }
};

/// All jobs together, as a scheduler would: prompts in chunks of 64 … 192, decode rows beside them, sequences
/// starting at different steps.
inline std::vector<Trace> run_together(ModelRig& rig, std::vector<Job> jobs, std::mt19937& random,
                                       std::size_t decode_tokens) {
  const auto vocab = static_cast<std::size_t>(rig.config.vocab_size);
  Recorder seen(rig);
  rig.runner->set_probe(&seen);
  std::size_t started = 1;
  bool working = true;
  while (working) {
    working = false;
    std::vector<Feed> feeds;
    std::vector<StateSlot> resets;
    std::vector<std::size_t> of_job;
    std::int32_t prefill_room = 192;
    for (const Form form : {Form::prefill, Form::decode}) {
      for (std::size_t j = 0; j < started; ++j) {
        Job& job = jobs[j];
        const auto slot = static_cast<StateSlot>(j);
        const auto length = static_cast<Position>(job.ids.size());
        if (form == Form::prefill && job.prefilling() && prefill_room >= 64) {
          const std::int32_t chunk =
              64 * std::uniform_int_distribution<std::int32_t>(1, prefill_room / 64)(random);
          const Position end = std::min(length, job.fed + chunk);
          if (job.fed == 0) resets.push_back(rig.begin(slot));
          const std::int32_t rows = end - job.fed;
          feeds.push_back(rig.feed(slot, form, job.fed, {job.ids.begin() + job.fed, job.ids.begin() + end},
                                   end == length ? rows - 1 : rows));
          of_job.push_back(j);
          prefill_room -= static_cast<std::int32_t>(gpu::round_up(rows, 64));
        } else if (form == Form::decode && !job.prefilling() && job.out.tokens.size() <= decode_tokens &&
                   job.out.tokens.size() > 0 && std::find(of_job.begin(), of_job.end(), j) == of_job.end()) {
          feeds.push_back(rig.feed(slot, form, job.fed, {job.out.tokens.back()}, 0));
          of_job.push_back(j);
        }
      }
    }
    const StepResult result = rig.step(feeds, resets);
    auto& logits = seen.floats["logits"];
    std::size_t row = 0;
    for (std::size_t f = 0; f < feeds.size(); ++f) {
      Job& job = jobs[of_job[f]];
      job.fed += static_cast<Position>(feeds[f].known.size());
      for (const TokenId token : ModelRig::sampled(result, f)) {
        job.out.tokens.push_back(token);
        const auto begin = logits.begin() + static_cast<std::ptrdiff_t>(row++ * vocab);
        job.out.logits.insert(job.out.logits.end(), begin, begin + static_cast<std::ptrdiff_t>(vocab));
      }
      working = true;
    }
    seen.clear();
    if (started < jobs.size()) {
      ++started;
      working = true;
    }
  }
  rig.runner->set_probe(nullptr);
  std::vector<Trace> traces;
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    jobs[j].out.state = rig.runner->read_state(static_cast<StateSlot>(j), jobs[j].fed);
    traces.push_back(std::move(jobs[j].out));
  }
  return traces;
}

inline void expect_splits_agree(const std::string& name, int rounds, RigOptions options = {}) {
  SCOPED_TRACE(name);
  options.max_prefill_tokens = 704;
  options.max_seq_len = 768;
  options.max_batch_size = 2;
  ModelRig rig(fixture(name), options);
  std::mt19937 random(20260131);
  for (int round = 0; round < rounds; ++round) {
    const std::int32_t length = round == 0   ? 1
                                : round == 1 ? 700
                                             : std::uniform_int_distribution<std::int32_t>(1, 700)(random);
    const auto ids = random_ids(random, static_cast<std::size_t>(length));
    const auto cuts = random_cuts(random, length);
    SCOPED_TRACE("length " + std::to_string(length) + " in " + std::to_string(cuts.size()) + " chunks");
    expect_same(trace(rig, 1, ids, cuts, 3), trace(rig, 0, ids, {length}, 3));
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace model::testing
