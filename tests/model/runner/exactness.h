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

/// `rounds` prompts of up to `longest` tokens, cut anywhere on the grid and whole.
inline void expect_splits_agree(const std::string& name, int rounds, RigOptions options = {},
                                std::int32_t longest = 700) {
  SCOPED_TRACE(name);
  options.max_prefill_tokens = 704;
  options.max_seq_len = 768;
  options.max_batch_size = 2;
  ModelRig rig(fixture(name), options);
  std::mt19937 random(20260131);
  for (int round = 0; round < rounds; ++round) {
    const std::int32_t length = round == 0 ? 1
                                : round == 1
                                    ? longest
                                    : std::uniform_int_distribution<std::int32_t>(1, longest)(random);
    const auto ids = random_ids(random, static_cast<std::size_t>(length));
    const auto cuts = random_cuts(random, length);
    SCOPED_TRACE("length " + std::to_string(length) + " in " + std::to_string(cuts.size()) + " chunks");
    expect_same(trace(rig, 1, ids, cuts, 3), trace(rig, 0, ids, {length}, 3));
    if (::testing::Test::HasFailure()) return;
  }
}

/// The form belongs to the position: a prompt's last token is prefill form even when it is fed alone.
inline void expect_tail_is_prefill_form(const RigOptions& options = {}) {
  ModelRig rig(fixture("tiny-qwen4_exp"), options);
  std::mt19937 random(7);
  const auto ids = random_ids(random, 129);
  const Trace whole = trace(rig, 0, ids, {129}, 0);
  expect_same(trace(rig, 1, ids, {128, 129}, 0), whole);

  rig.run(rig.feed(2, Form::prefill, 0, {ids.begin(), ids.begin() + 128}, 128), {rig.begin(2)});
  rig.run(rig.feed(2, Form::decode, 128, {ids[128]}, 0));
  const State other = rig.runner->read_state(2, 129);
  bool differs = false;
  for (std::size_t i = 0; i < other.size(); ++i)
    differs = differs || !same_bits(other[i].second, whole.state[i].second);
  EXPECT_TRUE(differs) << "the forms agree to the bit here, so this test cannot tell them apart";
}

/// Decode rows fed again after a preemption: several in one step equal one at a time.
inline void expect_known_rows_equal_single_steps(const RigOptions& options = {}) {
  ModelRig rig(fixture("tiny-qwen4_exp"), options);
  std::mt19937 random(11);
  const auto ids = random_ids(random, 70);
  const Trace single = trace(rig, 0, ids, {70}, 40);

  Recorder seen(rig);
  rig.runner->set_probe(&seen);
  rig.run(rig.feed(1, Form::prefill, 0, ids, 69), {rig.begin(1)});
  Position at = 70;
  for (const std::int32_t width : {1, 2, 3, 5, 7, 8, 8, 6}) {
    const auto first = single.tokens.begin() + (at - 70);
    rig.run(rig.feed(1, Form::decode, at, {first, first + width}, 0));
    at += width;
  }
  rig.runner->set_probe(nullptr);
  EXPECT_EQ(at, 110);
  EXPECT_TRUE(same_bits(seen.floats["logits"], single.logits));
  expect_same(rig.runner->read_state(1, at), single.state);
}

/// Prompts of these lengths alone, and then together on rigs of each of `rigs`: 24 tokens each.
inline void expect_rows_do_not_depend_on_their_batch(const std::string& name,
                                                     const std::vector<std::size_t>& lengths,
                                                     std::vector<RigOptions> rigs) {
  SCOPED_TRACE(name);
  std::mt19937 random(99);
  std::vector<Job> jobs(lengths.size());
  for (std::size_t j = 0; j < jobs.size(); ++j) jobs[j].ids = random_ids(random, lengths[j]);
  for (RigOptions& options : rigs) {
    options.max_prefill_tokens = 192;
    options.max_batch_size = static_cast<std::int32_t>(jobs.size());
  }
  std::vector<Trace> alone;
  ModelRig single(fixture(name), rigs.front());
  for (const Job& job : jobs) {
    std::vector<std::int32_t> cuts;
    for (auto at = std::int32_t{192}; at < std::ssize(job.ids); at += 192) cuts.push_back(at);
    cuts.push_back(static_cast<std::int32_t>(job.ids.size()));
    alone.push_back(trace(single, 0, job.ids, cuts, 24));
  }
  for (const RigOptions& options : rigs) {
    SCOPED_TRACE(std::to_string(options.num_workers) + " workers");
    ModelRig rig(fixture(name), options);
    const auto together = run_together(rig, jobs, random, 24);
    for (std::size_t j = 0; j < jobs.size(); ++j) {
      SCOPED_TRACE("prompt of " + std::to_string(lengths[j]));
      expect_same(together[j], alone[j]);
    }
  }
}

/// Nothing is read that was not written: fresh memory full of NaN changes no bit.
inline void expect_poison_changes_nothing(const std::string& name, RigOptions options = {}) {
  SCOPED_TRACE(name);
  ModelRig clean(fixture(name), options);
  options.poisoned = true;
  ModelRig poisoned(fixture(name), options);
  std::mt19937 random(5);
  for (const std::int32_t length : {1, 2, 3, 4, 35, 63, 64, 100}) {
    const auto ids = random_ids(random, static_cast<std::size_t>(length));
    SCOPED_TRACE(length);
    expect_same(trace(poisoned, length % 8, ids, {length}, 20), trace(clean, length % 8, ids, {length}, 20));
  }
}

/// A slot that was used before begins a new sequence like a fresh one.
inline void expect_a_reset_slot_remembers_nothing(const std::string& name, const RigOptions& options = {}) {
  SCOPED_TRACE(name);
  ModelRig rig(fixture(name), options);
  std::mt19937 random(6);
  const auto before = random_ids(random, 200);
  const auto ids = random_ids(random, 3);
  const Trace fresh = trace(rig, 1, ids, {3}, 20);
  trace(rig, 0, before, {200}, 10);
  expect_same(trace(rig, 0, ids, {3}, 20), fresh);
}

/// Sampling rows inside a prompt must not disturb what later rows hash.
inline void expect_inner_logits_leave_the_ids_alone(RigOptions options = {}) {
  options.max_batch_size = 64;
  ModelRig rig(fixture("tiny-qwen4_exp"), options);
  std::mt19937 random(8);
  const auto ids = random_ids(random, 64);
  const Trace plain = trace(rig, 0, ids, {64}, 10);
  const auto sampled = rig.run(rig.feed(1, Form::prefill, 0, ids, 0), {rig.begin(1)});
  ASSERT_EQ(sampled.size(), 64U);
  std::vector<TokenId> tokens{sampled.back()};
  for (int i = 0; i < 10; ++i)
    tokens.push_back(rig.run(rig.feed(1, Form::decode, 64 + i, {tokens.back()}, 0)).at(0));
  EXPECT_EQ(tokens, plain.tokens);
  expect_same(rig.runner->read_state(1, 74), plain.state);
}

}  // namespace model::testing
