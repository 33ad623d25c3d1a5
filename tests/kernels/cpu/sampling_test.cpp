#include "kernels/sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/philox.h"
#include "tests/kernels/cpu/op_matrix.h"

namespace kernels {
namespace {

using gpu::DType;
using testing::OpMatrix;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// A call with one ids row per slot; rows are added with their parameters.
struct Call {
  explicit Call(std::int64_t vocabulary, std::int64_t max_rows = 1)
      : logits(DType::f32, max_rows, vocabulary),
        scratch(DType::f32, max_rows, vocabulary),
        ids(DType::i32, 4, 32) {
    for (std::int64_t s = 0; s < 4; ++s) {
      for (std::int64_t p = 0; p < 32; ++p) ids.set(s, p, -1);
    }
  }
  std::vector<SampledRow> run(int workers = 1) {
    std::vector<SampledRow> out(params.size());
    const auto n = static_cast<std::int64_t>(params.size());
    auto cut = logits.view<float>();
    auto cut_scratch = scratch.view<float>();
    cut.rows = cut_scratch.rows = Rows{n};
    gpu::PooledHostStream stream(workers);
    status = cpu::sample(stream, {{out.data(), {n}},
                                  ids.view<std::int32_t>(),
                                  cut,
                                  cut_scratch,
                                  {params.data(), {n}},
                                  {biases.data(), {static_cast<std::int64_t>(biases.size())}},
                                  {bans.data(), {static_cast<std::int64_t>(bans.size())}},
                                  counts});
    return out;
  }
  SampledRow one(const std::vector<double>& row, RowSampling sampling) {
    for (std::size_t i = 0; i < row.size(); ++i) logits.set(0, static_cast<std::int64_t>(i), row[i]);
    params = {sampling};
    return run()[0];
  }
  OpMatrix logits, scratch, ids;
  std::vector<RowSampling> params;
  std::vector<TokenBias> biases;
  std::vector<std::int32_t> bans;
  PenaltyCounts counts;
  gpu::Status status = gpu::Done{};
};

/// How often each token comes out of `positions` draws.
std::map<std::int32_t, int> histogram(const std::vector<double>& row, RowSampling sampling, int positions) {
  Call call(static_cast<std::int64_t>(row.size()), positions);
  for (std::int32_t r = 0; r < positions; ++r) {
    for (std::size_t i = 0; i < row.size(); ++i) call.logits.set(r, static_cast<std::int64_t>(i), row[i]);
    sampling.position = r + 100;
    call.params.push_back(sampling);
  }
  std::map<std::int32_t, int> counts;
  for (const SampledRow& out : call.run(2)) ++counts[out.token];
  return counts;
}
std::set<std::int32_t> support(const std::vector<double>& row, const RowSampling& sampling) {
  std::set<std::int32_t> tokens;
  for (const auto& [token, count] : histogram(row, sampling, 4000)) tokens.insert(token);
  return tokens;
}

TEST(SampleGreedy, TakesTheLargestAndOnTiesTheLowerId) {
  for (const std::int64_t vocab : {1, 15, 16, 17, 256, 257, 1000}) {
    std::vector<double> row(static_cast<std::size_t>(vocab), -3.0);
    for (const std::int64_t at : {std::int64_t{0}, vocab / 2, vocab - 1}) {
      auto peaked = row;
      peaked[static_cast<std::size_t>(at)] = -1.0;
      EXPECT_EQ(Call(vocab).one(peaked, {}).token, at) << vocab;
      peaked[static_cast<std::size_t>(vocab - 1)] = -1.0;
      EXPECT_EQ(Call(vocab).one(peaked, {}).token, at) << vocab;
    }
    EXPECT_EQ(Call(vocab).one(row, {}).token, 0);
  }
}

TEST(Sample, WritesTheTokenAtSlotAndPositionWhileThereIsRoom) {
  for (const auto& [position, written] : {std::pair{0, true}, std::pair{31, true}, std::pair{32, false}}) {
    Call call(4);
    RowSampling sampling;
    sampling.slot = 2;
    sampling.position = position;
    EXPECT_EQ(call.one({0, 0, 5, 0}, sampling).token, 2);
    int changed = 0;
    for (std::int64_t s = 0; s < 4; ++s) {
      for (std::int64_t p = 0; p < 32; ++p) changed += call.ids.at(s, p) != -1.0;
    }
    EXPECT_EQ(changed, written ? 1 : 0);
    EXPECT_TRUE(!written || call.ids.at(2, position) == 2.0);
  }
}

TEST(Sample, NaNAndPlusInfinityAreNotFinite) {
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), kInfinity}) {
    for (const std::int64_t vocab : {3, 16, 40, 300}) {
      for (const std::int64_t at : {std::int64_t{0}, vocab - 1}) {
        std::vector<double> row(static_cast<std::size_t>(vocab), 1.0);
        row[static_cast<std::size_t>(at)] = bad;
        Call call(vocab);
        EXPECT_EQ(call.one(row, {}).finite, 0) << vocab << " " << at;
        EXPECT_EQ(call.ids.at(0, 0), -1.0) << "an undefined token is not written";
      }
    }
  }
  EXPECT_EQ(Call(3).one({-kInfinity, 2.0, -kInfinity}, {}).finite, 1);
  EXPECT_EQ(Call(2).one({-kInfinity, -kInfinity}, {}).finite, 0) << "nothing to choose from";
}

TEST(Sample, ARandomTokenDependsOnSeedAndPositionAlone) {
  std::mt19937 random(61);
  const std::int64_t vocab = 100;
  Call batch(vocab, 8);
  OpMatrix rows = testing::random_f32(8, vocab, random, 2.0);
  for (std::int32_t r = 0; r < 8; ++r) {
    for (std::int64_t i = 0; i < vocab; ++i) batch.logits.set(r, i, rows.at(r, i));
    RowSampling sampling;
    sampling.temperature = 0.9F;
    sampling.top_p = r % 2 ? 0.8F : 1.0F;
    sampling.top_k = r % 3 ? 0 : 7;
    sampling.seed = 77ULL + static_cast<std::uint64_t>(r) * 0x100000001ULL;
    sampling.slot = r % 4;
    sampling.position = 5 + r;
    batch.params.push_back(sampling);
  }
  const auto together = batch.run(3);
  for (std::int32_t r = 0; r < 8; ++r) {
    Call alone(vocab);
    std::vector<double> row;
    for (std::int64_t i = 0; i < vocab; ++i) row.push_back(rows.at(r, i));
    EXPECT_EQ(alone.one(row, batch.params[static_cast<std::size_t>(r)]).token,
              together[static_cast<std::size_t>(r)].token)
        << r;
  }
}

TEST(Sample, WalksAscendingIdsUntilTheUniformNumberIsExceeded) {
  const std::vector<double> row = {std::log(0.1), std::log(0.4), std::log(0.2), std::log(0.3)};
  for (std::int32_t position = 0; position < 30; ++position) {
    RowSampling sampling;
    sampling.temperature = 1.0F;
    sampling.seed = 9;
    sampling.position = position;
    const double u = uniform(9, position);
    const int wanted = u < 0.1 ? 0 : u < 0.5 ? 1 : u < 0.7 ? 2 : 3;
    EXPECT_EQ(Call(4).one(row, sampling).token, wanted) << u;
    sampling.top_k = 2;  // {1: 4/7, 3: 3/7}
    EXPECT_EQ(Call(4).one(row, sampling).token, u < 4.0 / 7.0 ? 1 : 3) << u;
  }
}

TEST(Sample, TemperatureSharpensAndFlattens) {
  const std::vector<double> row = {0.0, std::log(4.0)};
  for (const auto& [temperature, share] :
       {std::pair{1.0F, 0.8}, std::pair{0.5F, 16.0 / 17.0}, std::pair{2.0F, 2.0 / 3.0}}) {
    RowSampling sampling;
    sampling.temperature = temperature;
    sampling.seed = 3;
    EXPECT_NEAR(histogram(row, sampling, 20000)[1] / 20000.0, share, 0.012);
  }
}

TEST(Sample, TopKKeepsTheKLargestAndTheLowerIdOfATie) {
  const std::vector<double> row = {1.0, 2.0, 1.0, 2.0, 1.0, 0.0};
  RowSampling sampling;
  sampling.temperature = 1.0F;
  const std::set<std::int32_t> wanted[] = {{1},          {1, 3},          {0, 1, 3},
                                           {0, 1, 2, 3}, {0, 1, 2, 3, 4}, {0, 1, 2, 3, 4, 5}};
  for (std::int32_t k = 1; k <= 6; ++k) {
    sampling.top_k = k;
    EXPECT_EQ(support(row, sampling), wanted[k - 1]) << k;
  }
  sampling.top_k = 0;
  EXPECT_EQ(support(row, sampling), wanted[5]);
}

TEST(Sample, TopKLooksPastTheFirstBlocksOfALargeVocabulary) {
  std::vector<double> row(2000);
  std::mt19937 random(62);
  std::normal_distribution<double> normal;
  for (double& value : row) value = normal(random);
  std::vector<std::int32_t> order(2000);
  for (std::int32_t i = 0; i < 2000; ++i) order[static_cast<std::size_t>(i)] = i;
  std::sort(order.begin(), order.end(), [&](auto a, auto b) {
    return row[static_cast<std::size_t>(a)] > row[static_cast<std::size_t>(b)];
  });
  RowSampling sampling;
  sampling.temperature = 100.0F;  // nearly even, so that all of them appear
  sampling.top_k = 5;
  EXPECT_EQ(support(row, sampling), std::set<std::int32_t>(order.begin(), order.begin() + 5));
}

TEST(Sample, TopPKeepsTheSmallestPrefixThatReachesIt) {
  const std::vector<double> row = {std::log(0.05), std::log(0.5), std::log(0.15), std::log(0.3)};
  RowSampling sampling;
  sampling.temperature = 1.0F;
  for (const auto& [top_p, wanted] : {std::pair<float, std::set<std::int32_t>>{0.0F, {1}},
                                      {0.49F, {1}},
                                      {0.51F, {1, 3}},
                                      {0.79F, {1, 3}},
                                      {0.81F, {1, 2, 3}},
                                      {0.96F, {0, 1, 2, 3}},
                                      {1.0F, {0, 1, 2, 3}}}) {
    sampling.top_p = top_p;
    EXPECT_EQ(support(row, sampling), wanted) << top_p;
  }
}

TEST(Sample, TopPOverTiesKeepsLowerIds) {
  RowSampling sampling;
  sampling.temperature = 1.0F;
  sampling.top_p = 0.6F;
  EXPECT_EQ(support({0.0, 0.0, 0.0, 0.0}, sampling), (std::set<std::int32_t>{0, 1, 2}));
}

TEST(Sample, TopPOverAFlatLargeVocabularyKeepsItsShareOfLowIds) {
  const std::int64_t vocab = 5000;
  Call call(vocab);
  RowSampling sampling;
  sampling.temperature = 1.0F;
  sampling.top_p = 0.5F;
  std::int32_t largest = 0;
  for (std::int32_t position = 0; position < 31; ++position) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      sampling.position = position;
      sampling.seed = seed;
      largest = std::max(largest,
                         call.one(std::vector<double>(static_cast<std::size_t>(vocab), 0.5), sampling).token);
    }
  }
  EXPECT_LT(largest, 2501);
  EXPECT_GT(largest, 2400);
}

TEST(Sample, TopPAfterTopKCountsWhatTopKKept) {
  const std::vector<double> row = {std::log(0.4), std::log(0.3), std::log(0.2), std::log(0.1)};
  RowSampling sampling;
  sampling.temperature = 1.0F;
  sampling.top_k = 2;     // 4/7 and 3/7
  sampling.top_p = 0.5F;  // of the two, not of the four
  EXPECT_EQ(support(row, sampling), (std::set<std::int32_t>{0}));
  sampling.top_p = 0.6F;
  EXPECT_EQ(support(row, sampling), (std::set<std::int32_t>{0, 1}));
}

TEST(Sample, MinPIsRelativeToTheLargest) {
  const std::vector<double> row = {std::log(0.1), std::log(0.5), std::log(0.26), std::log(0.14)};
  RowSampling sampling;
  sampling.temperature = 1.0F;
  for (const auto& [min_p, wanted] : {std::pair<float, std::set<std::int32_t>>{0.0F, {0, 1, 2, 3}},
                                      {0.21F, {1, 2, 3}},
                                      {0.3F, {1, 2}},
                                      {0.6F, {1}},
                                      {1.0F, {1}},
                                      {2.0F, {1}}}) {
    for (const std::int32_t top_k : {0, 3}) {
      sampling.min_p = min_p;
      sampling.top_k = top_k;
      auto kept = wanted;
      if (top_k == 3) kept.erase(0);
      EXPECT_EQ(support(row, sampling), kept) << min_p;
    }
  }
}

TEST(Sample, BiasesAndBansComeFirst) {
  Call call(4);
  call.biases = {{0, 100.0F}, {2, 3.0F}, {3, 1.0F}};
  call.bans = {1, 2};
  RowSampling sampling;
  sampling.first_bias = 1;
  sampling.num_biases = 2;
  EXPECT_EQ(call.one({0.0, 2.5, 0.0, 0.0}, sampling).token, 2);
  sampling.first_ban = 1;
  sampling.num_bans = 1;
  EXPECT_EQ(call.one({0.0, 2.5, 0.0, 0.0}, sampling).token, 1);
  sampling.first_ban = 0;
  sampling.num_bans = 2;
  EXPECT_EQ(call.one({0.0, 2.5, 0.0, 0.0}, sampling).token, 3);
  sampling.temperature = 1.0F;
  for (std::int32_t position = 0; position < 31; ++position) {
    sampling.position = position;
    const std::int32_t token = call.one({0.0, 2.5, 0.0, 0.0}, sampling).token;
    EXPECT_TRUE(token == 0 || token == 3) << "a banned token was drawn";
  }
}

/// The logits after penalties, read from the scratch row that the op works in.
std::vector<double> penalised(RowSampling sampling, const std::vector<double>& row,
                              const std::vector<int>& ids) {
  Call call(static_cast<std::int64_t>(row.size()));
  sampling.slot = 1;
  sampling.position = static_cast<std::int32_t>(ids.size());
  for (std::size_t p = 0; p < ids.size(); ++p) call.ids.set(1, static_cast<std::int64_t>(p), ids[p]);
  call.ids.set(1, static_cast<std::int64_t>(ids.size()), 0);  // stale: beyond what the row knows
  (void)call.one(row, sampling);
  std::vector<double> values;
  for (std::size_t i = 0; i < row.size(); ++i)
    values.push_back(call.scratch.at(0, static_cast<std::int64_t>(i)));
  return values;
}

TEST(SamplePenalties, RepetitionDividesPositiveAndMultipliesNegativeOfPromptAndOutput) {
  RowSampling sampling;
  sampling.repetition_penalty = 2.0F;
  sampling.prompt_tokens = 2;
  EXPECT_EQ(penalised(sampling, {4.0, 4.0, -4.0, 4.0, 0.0}, {1, 2, 3, 3, 3}),
            (std::vector<double>{4.0, 2.0, -8.0, 2.0, 0.0}));
}

TEST(SamplePenalties, FrequencyCountsAndPresenceDoesNotAndBothLeaveThePromptAlone) {
  RowSampling sampling;
  sampling.frequency_penalty = 0.5F;
  sampling.prompt_tokens = 2;
  EXPECT_EQ(penalised(sampling, {1.0, 1.0, 1.0, 1.0}, {0, 1, 1, 3, 3}),
            (std::vector<double>{1.0, 0.5, 1.0, 0.0}));
  sampling.frequency_penalty = 0.0F;
  sampling.presence_penalty = 0.25F;
  EXPECT_EQ(penalised(sampling, {1.0, 1.0, 1.0, 1.0}, {0, 1, 1, 3, 3}),
            (std::vector<double>{1.0, 0.75, 1.0, 0.75}));
}

TEST(SamplePenalties, RepetitionComesBeforeFrequencyAndPresence) {
  RowSampling sampling;
  sampling.repetition_penalty = 2.0F;
  sampling.frequency_penalty = 0.5F;
  sampling.presence_penalty = 0.25F;
  EXPECT_EQ(penalised(sampling, {8.0, 8.0}, {1, 1}), (std::vector<double>{8.0, 4.0 - 1.0 - 0.25}));
}

TEST(SamplePenalties, CountsKeptBetweenCallsEqualCountingAnew) {
  constexpr std::int64_t kVocab = 24;
  std::mt19937 random(5);
  OpMatrix of_token(DType::i32, 4, kVocab), seen(DType::i32, 4, 32), progress(DType::i32, 2, 4);
  for (auto* kept : {&of_token, &seen, &progress}) {
    for (std::int64_t r = 0; r < kept->view<std::int32_t>().rows.n; ++r) {
      for (std::int64_t c = 0; c < kept->view<std::int32_t>().cols.n; ++c) kept->set(r, c, 0);
    }
  }
  const auto counts = progress.view<std::int32_t>();
  const PenaltyCounts kept{of_token.view<std::int32_t>(),
                           seen.view<std::int32_t>(),
                           {counts.base, counts.cols},
                           {counts.base + counts.pitch.n, counts.cols}};
  for (int sequence = 0; sequence < 40; ++sequence) {
    const auto slot = static_cast<std::int32_t>(random() % 4);
    counts.base[slot] = 0;  // a sequence begins in it
    Call with(kVocab), without(kVocab);
    with.counts = kept;
    RowSampling sampling;
    sampling.slot = slot;
    sampling.prompt_tokens = static_cast<std::int32_t>(random() % 12);
    sampling.repetition_penalty = 1.3F;
    sampling.frequency_penalty = 0.7F;
    sampling.presence_penalty = 0.4F;
    for (std::int32_t position = 0; position < 32;) {
      const auto end = std::min(32, position + 1 + static_cast<std::int32_t>(random() % 5));
      for (; position < end; ++position) {
        const double id = static_cast<double>(random() % (kVocab / 2));
        with.ids.set(slot, position, id);
        without.ids.set(slot, position, id);
      }
      sampling.position = position;
      std::vector<double> row;
      for (std::int64_t i = 0; i < kVocab; ++i)
        row.push_back(static_cast<float>(static_cast<double>(random() % 2000) / 300.0 - 3.0));
      ASSERT_EQ(with.one(row, sampling).token, without.one(row, sampling).token);
      for (std::int64_t i = 0; i < kVocab; ++i) ASSERT_EQ(with.scratch.at(0, i), without.scratch.at(0, i));
    }
  }
}

TEST(SamplePenalties, OneRowLeavesNothingBehindForTheNext) {
  RowSampling sampling;
  sampling.presence_penalty = 1.0F;
  (void)penalised(sampling, {1.0, 1.0, 1.0}, {0, 1, 2});
  EXPECT_EQ(penalised(sampling, {1.0, 1.0, 1.0}, {2}), (std::vector<double>{1.0, 1.0, 0.0}));
}

TEST(SampleLogprobs, AreOfTheRawLogits) {
  Call call(40);
  std::mt19937 random(63);
  std::normal_distribution<double> normal(0.0, 3.0);
  std::vector<double> row;
  for (int i = 0; i < 40; ++i) row.push_back(static_cast<float>(normal(random)));
  row[7] = row[21] = 12.0;
  call.biases = {{3, 50.0F}};
  RowSampling sampling;
  sampling.num_biases = 1;
  sampling.num_logprobs = 3;
  const SampledRow out = call.one(row, sampling);
  double total = 0.0;
  for (const double value : row) total += std::exp(value);
  EXPECT_EQ(out.token, 3);
  EXPECT_NEAR(out.logprob, row[3] - std::log(total), 2e-6);
  ASSERT_EQ(out.num_top, 3);
  EXPECT_EQ(out.top_tokens[0], 7);
  EXPECT_EQ(out.top_tokens[1], 21);
  EXPECT_NEAR(out.top_logprobs[0], 12.0 - std::log(total), 2e-6);
  EXPECT_EQ(out.top_logprobs[0], out.top_logprobs[1]);
  EXPECT_GE(out.top_logprobs[1], out.top_logprobs[2]);
}

TEST(SampleLogprobs, OfAGivenTokenSayHowLikelyItWasAndDrawNothing) {
  Call call(5);
  call.biases = {{0, 50.0F}};
  call.bans = {2};
  RowSampling sampling;
  sampling.num_biases = sampling.num_bans = 1;
  sampling.temperature = 1.0F;
  sampling.num_logprobs = 1;
  sampling.given_token = 2;
  sampling.position = 3;
  const SampledRow out = call.one({0.0, 1.0, 2.0, 3.0, 4.0}, sampling);
  EXPECT_EQ(out.token, 2);
  EXPECT_NEAR(out.logprob, -2.4519144, 1e-5);
  EXPECT_EQ(out.top_tokens[0], 4);
  EXPECT_EQ(call.ids.at(0, 3), 2.0);
}

TEST(Sample, WithoutBiasBanOrPenaltyTheVeryLogitsAreSampled) {
  // Minus zero and a denormal would not survive an addition of zero or a division by one on every target.
  std::vector<double> row{-0.0, 1e-42, 3.0, -5.0, 3.0};
  Call call(5);
  for (std::int64_t i = 0; i < 5; ++i) call.scratch.set(0, i, 77.0);
  for (const float temperature : {0.0F, 1.0F}) {
    RowSampling sampling;
    sampling.temperature = temperature;
    sampling.top_k = 2;
    (void)call.one(row, sampling);
    for (std::int64_t i = 0; i < 5; ++i) {
      EXPECT_EQ(call.scratch.at(0, i), 77.0) << "no copy was made to change";
      const double given = static_cast<float>(row[static_cast<std::size_t>(i)]);
      EXPECT_EQ(call.logits.at(0, i), given);
      EXPECT_EQ(std::signbit(call.logits.at(0, i)), std::signbit(given));
    }
  }
}

TEST(SampleLogprobs, AsManyAsAskedAndThereAre) {
  for (const auto& [asked, vocab, given] :
       {std::tuple{-1, 30, 0}, std::tuple{0, 30, 0}, std::tuple{1, 30, 1}, std::tuple{20, 30, 20},
        std::tuple{99, 30, 20}, std::tuple{20, 5, 5}}) {
    RowSampling sampling;
    sampling.num_logprobs = asked;
    const SampledRow out =
        Call(vocab).one(std::vector<double>(static_cast<std::size_t>(vocab), 1.0), sampling);
    EXPECT_EQ(out.num_top, given);
    EXPECT_EQ(out.logprob != 0.0F, asked >= 0);
    for (std::int32_t i = 0; i < given; ++i)
      EXPECT_EQ(out.top_tokens[static_cast<std::size_t>(i)], i) << "ties by id";
  }
}

TEST(Sample, ParametersThatWouldIndexOutsideAreRefusedByRow) {
  const auto refusal = [](const std::function<void(RowSampling&)>& breaks) {
    Call call(4, 2);
    for (std::int64_t i = 0; i < 4; ++i) {
      call.logits.set(0, i, 0.0);
      call.logits.set(1, i, 0.0);
    }
    call.biases = {{0, 1.0F}, {4, 1.0F}};
    call.bans = {0, -1};
    call.params.resize(2);
    breaks(call.params[1]);
    (void)call.run();
    return call.status.ok() ? std::string("accepted") : call.status.error().what;
  };
  EXPECT_EQ(refusal([](RowSampling&) {}), "accepted");
  EXPECT_EQ(refusal([](RowSampling& p) { p.slot = 4; }), "sample: row 1: slot out of range");
  EXPECT_EQ(refusal([](RowSampling& p) { p.slot = -1; }), "sample: row 1: slot out of range");
  EXPECT_EQ(refusal([](RowSampling& p) { p.position = -1; }), "sample: row 1: position out of range");
  EXPECT_EQ(refusal([](RowSampling& p) { p.num_biases = 3; }), "sample: row 1: biases out of range");
  EXPECT_EQ(refusal([](RowSampling& p) { p.num_biases = 2; }), "sample: row 1: bias token out of range");
  EXPECT_EQ(refusal([](RowSampling& p) { p.first_ban = 2, p.num_bans = 1; }),
            "sample: row 1: bans out of range");
  EXPECT_EQ(refusal([](RowSampling& p) { p.num_bans = 2; }), "sample: row 1: banned token out of range");
}

}  // namespace
}  // namespace kernels
