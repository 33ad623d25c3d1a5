#include <gtest/gtest.h>

#include <map>
#include <string>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/targets.h"
#include "kernels/ops.h"
#include "tests/kernels/cpu/sequence_rows.h"

#include "hwy/highway.h"

namespace kernels::testing {
namespace {

constexpr std::int32_t kRows = 90;

/// A prompt of kRows positions of slot 0; every operation below starts from the same seed.
struct Prompt {
  std::mt19937 rng{51};
  ThreadsStream stream{2};
  SegmentRows rows{Form::prefill, {{0, 0, kRows}}};
  SegmentRows steps{Form::decode, {{0, 0, kRows}}};
  ShuffledPages pages{1, 128, 16, rng};

  Floats random(std::int64_t num_rows, std::int64_t cols) {
    Floats m(num_rows, cols);
    m.randomize(rng);
    return m;
  }
};

Floats attended(std::int32_t head_dim) {
  Prompt p;
  const Floats q = p.random(kRows, 4 * head_dim), k = p.random(kRows, 2 * head_dim),
               v = p.random(kRows, 2 * head_dim);
  Floats k_cache(p.pages.num_pages() * 16, 2 * head_dim), v_cache = k_cache, o(kRows, 4 * head_dim);
  EXPECT_TRUE(cpu::kv_append(p.stream, p.rows.batch(),
                             {k_cache.view(), v_cache.view(), k.view(), v.view(), p.pages.tables()})
                  .ok());
  AttentionArgs args{o.view(), q.view(), k_cache.view(), v_cache.view(), p.pages.tables(),
                     4,        2,        head_dim,       0.25F,          {}};
  EXPECT_TRUE(cpu::attention(p.stream, p.rows.batch(), args).ok());
  const Floats gate = p.random(kRows, 4 * head_dim);
  EXPECT_TRUE(cpu::head_gate(p.stream, {o.view(), gate.view(), 4, head_dim, head_dim}).ok());
  return o;
}

/// Closed keys, and the scores of the selection over them.
Floats indexed(std::int32_t dim) {
  Prompt p;
  const Floats raw = p.random(kRows, dim), q = p.random(kRows, 3 * dim);
  const std::vector<float> norm(static_cast<std::size_t>(dim), 0.1F), inv_freq{1.0F, 0.3F, 0.01F};
  Floats ring(8, dim), closed(p.pages.num_pages() * 4, dim), scores(kRows, kRows / 4);
  EXPECT_TRUE(cpu::qsa_index_append(p.stream, p.rows.batch(),
                                    {closed.view(),
                                     ring.view(),
                                     raw.view(),
                                     8,
                                     4,
                                     p.pages.tables(),
                                     vector_of(norm),
                                     1e-6F,
                                     {view_of(inv_freq), 1.0F}})
                  .ok());
  std::vector<std::int32_t> blocks(kRows * 3);
  EXPECT_TRUE(cpu::qsa_select(p.stream, p.rows.batch(),
                              {{blocks.data(), {kRows}, {3}, {3}},
                               scores.view(),
                               q.view(),
                               closed.view(),
                               3,
                               dim,
                               4,
                               3,
                               p.pages.tables()})
                  .ok());
  return scores;
}

Floats convolved() {
  Prompt p;
  const Floats x = p.random(kRows, 70), w = p.random(70, 4);
  Floats y(kRows, 70), ring(9, 70);
  EXPECT_TRUE(cpu::causal_conv(p.stream, p.rows.batch(),
                               {y.view(), x.view(), w.view(), ring.view(), 9, 4, 3, ConvActivation::silu})
                  .ok());
  return y;
}

Floats recurrent(Form form, std::int32_t k_dim, std::int32_t v_dim) {
  Prompt p;
  const Floats qkv = p.random(kRows, 4 * k_dim + 4 * v_dim), a = p.random(kRows, 4), b = p.random(kRows, 4);
  Floats o(kRows, 4 * v_dim), state = p.random(4, std::int64_t{k_dim} * v_dim);
  const std::vector<float> a_log(4, -0.5F), dt_bias(4, 0.25F);
  const RowBatch& rows = form == Form::prefill ? p.rows.batch() : p.steps.batch();
  EXPECT_TRUE(cpu::gdn(p.stream, rows,
                       {o.view(), qkv.view(), a.view(), b.view(), vector_of(a_log), vector_of(dt_bias),
                        state.view(), 2, 4, k_dim, v_dim})
                  .ok());
  return o;
}

Floats gated() {
  Prompt p;
  const Floats key = p.random(kRows, 4 * 72), query = p.random(kRows, 4 * 72), value = p.random(kRows, 72);
  Floats gv(kRows, 4 * 72);
  EXPECT_TRUE(cpu::ple_gate(p.stream, {gv.view(), key.view(), query.view(), value.view(), 4}).ok());
  return gv;
}

std::map<std::string, Floats> all_operations() {
  std::map<std::string, Floats> all;
  for (const std::int32_t dim : {16, 20, 64}) {
    all.emplace("attention " + std::to_string(dim), attended(dim));
    all.emplace("qsa " + std::to_string(dim), indexed(dim));
    all.emplace("gdn chunked " + std::to_string(dim), recurrent(Form::prefill, dim, dim + 4));
    all.emplace("gdn steps " + std::to_string(dim), recurrent(Form::decode, dim, dim + 80));
  }
  all.emplace("causal_conv", convolved());
  all.emplace("ple_gate", gated());
  return all;
}

TEST(SequenceOps, EveryInstructionSetGivesTheSameBits) {
  hwy::SetSupportedTargetsForTest(0);
  const std::map<std::string, Floats> best = all_operations();
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    std::cout << hwy::TargetName(target) << "\n";
    for (const auto& [name, values] : all_operations()) {
      EXPECT_TRUE(same_bits(values, best.at(name))) << name << " on " << hwy::TargetName(target);
    }
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace
}  // namespace kernels::testing
