#include "kernels/sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <set>
#include <string>

#include "kernels/philox.h"
#include "tests/kernels/cuda/sample_case.h"

namespace kernels {
namespace {

using testing::CountsMemory;
using testing::OpMatrix;
using testing::same_bits;
using testing::SampleCase;
using testing::Sampled;
using testing::TestDevice;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// The real model's, on a device.
std::int64_t large_vocab() { return TestDevice::get()->small() ? 5003 : 248320; }

RowSampling at(std::int32_t slot, std::int32_t position) {
  RowSampling sampling;
  sampling.slot = slot;
  sampling.position = position;
  return sampling;
}

struct Both {
  Sampled cpu, device;
};

/// log sum_i e^(logits[i]) of a row, in double: the CPU's sum of a large vocabulary, in fp32 lanes, is off by
/// more than the device's, which is exact.
double log_total(const SampleCase& call, std::int64_t r) {
  double largest = -kInfinity, sum = 0.0;
  for (std::int64_t i = 0; i < call.logits.cols(); ++i) largest = std::max(largest, call.logits.at(r, i));
  for (std::int64_t i = 0; i < call.logits.cols(); ++i) sum += std::exp(call.logits.at(r, i) - largest);
  return largest + std::log(sum);
}
/// Rounded to fp32 twice: the total, and the difference.
double tolerance(double total, double logprob) {
  return (std::abs(total) + std::abs(logprob)) * 0x1p-23 + 1e-7;
}

void expect_logprobs(const SampleCase& call, std::int64_t r, const SampledRow& got, const std::string& what) {
  const double total = log_total(call, r);
  const double of_token = call.logits.at(r, got.token) - total;
  EXPECT_NEAR(got.logprob, of_token, tolerance(total, of_token)) << what << ", row " << r;
  for (std::size_t i = 0; i < static_cast<std::size_t>(got.num_top); ++i) {
    const double logprob = call.logits.at(r, got.top_tokens[i]) - total;
    EXPECT_NEAR(got.top_logprobs[i], logprob, tolerance(total, logprob)) << what << ", row " << r;
  }
}

/// True when the row's random number falls within kEdge of the share that `token` has of what top_k, top_p
/// and min_p keep, all of it in double: weights are fp32, so of two tokens that meet there either may be
/// drawn.
bool owns_the_number(const SampleCase& call, std::int64_t r, std::int32_t token) {
  constexpr double kEdge = 1e-6;
  const RowSampling& p = call.params[static_cast<std::size_t>(r)];
  if (p.temperature == 0.0F || p.num_biases + p.num_bans > 0 || p.repetition_penalty != 1.0F ||
      p.presence_penalty != 0.0F || p.frequency_penalty != 0.0F) {
    return false;
  }
  std::vector<std::int64_t> ids(static_cast<std::size_t>(call.logits.cols()));
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](std::int64_t a, std::int64_t b) {
    return call.logits.at(r, a) > call.logits.at(r, b);
  });
  if (p.top_k > 0) ids.resize(std::min(ids.size(), static_cast<std::size_t>(p.top_k)));
  const double largest = call.logits.at(r, ids.front());
  const auto weight = [&](std::int64_t id) {
    return std::exp((call.logits.at(r, id) - largest) / static_cast<double>(p.temperature));
  };
  const auto total = [&] {
    return std::accumulate(ids.begin(), ids.end(), 0.0,
                           [&](double sum, auto id) { return sum + weight(id); });
  };
  if (p.top_p < 1.0F) {
    const double wanted = static_cast<double>(p.top_p) * total();
    std::size_t kept = 0;
    for (double reached = 0.0; kept < ids.size() && (kept == 0 || reached < wanted); ++kept)
      reached += weight(ids[kept]);
    ids.resize(kept);
  }
  std::erase_if(ids,
                [&](std::int64_t id) { return weight(id) < std::min(1.0, static_cast<double>(p.min_p)); });
  double before = 0.0;
  for (const std::int64_t id : ids) before += id < token ? weight(id) : 0.0;
  const double u = uniform(p.seed, p.position), all = total();
  return std::find(ids.begin(), ids.end(), token) != ids.end() && u > before / all - kEdge &&
         u < (before + weight(token)) / all + kEdge;
}

/// Tokens, finiteness, alternatives and ids are the CPU's; logprobs are right.
Both expect_same(const SampleCase& call, const std::string& what) {
  Both both{call.on_cpu(), call.on_device()};
  auto& [cpu, device] = both;
  EXPECT_TRUE(cpu.status.ok() && device.status.ok())
      << what << (device.status.ok() ? "" : device.status.error().what);
  for (std::size_t r = 0; r < cpu.out.size(); ++r) {
    const SampledRow &wanted = cpu.out[r], &got = device.out[r];
    EXPECT_EQ(got.finite, wanted.finite) << what << ", row " << r;
    if (wanted.finite == 0) continue;
    if (got.token != wanted.token) {
      EXPECT_TRUE(owns_the_number(call, static_cast<std::int64_t>(r), got.token))
          << what << ", row " << r << ": token " << got.token << ", the CPU's " << wanted.token;
      const RowSampling& p = call.params[r];
      if (p.position < cpu.ids.cols()) cpu.ids.set(p.slot, p.position, got.token);
    }
    EXPECT_EQ(got.num_top, wanted.num_top) << what << ", row " << r;
    EXPECT_EQ(got.top_tokens, wanted.top_tokens) << what << ", row " << r;
    if (call.params[r].num_logprobs >= 0) {
      expect_logprobs(call, static_cast<std::int64_t>(r), got, what);
    } else {
      EXPECT_EQ(got.logprob, 0.0F) << what << ", row " << r;
    }
  }
  EXPECT_TRUE(bytes_of(device.ids) == bytes_of(cpu.ids)) << what << ": ids";
  EXPECT_TRUE(device.scratch.padding_untouched()) << what;
  return both;
}

/// Besides, the logits after biases, bans and penalties.
Both expect_same_adjusted(const SampleCase& call, const std::string& what) {
  Both both = expect_same(call, what);
  for (std::int64_t r = 0; r < call.num_rows(); ++r)
    EXPECT_TRUE(both.device.scratch.row_bits(r) == both.cpu.scratch.row_bits(r)) << what << ", row " << r;
  return both;
}

TEST(CudaSampleGreedy, TakesTheLargestAndOnTiesTheLowerId) {
  REQUIRE_DEVICE();
  for (const std::int64_t vocab : {1, 3, 4, 63, 64, 65, 128, 1000, 2047, 2049}) {
    for (const std::int64_t extra_pitch : {16, 1}) {
      SampleCase call(4, vocab, extra_pitch);
      for (std::int64_t r = 0; r < 4; ++r) {
        call.set_row(r, std::vector<double>(static_cast<std::size_t>(vocab), -3.0));
        call.params[static_cast<std::size_t>(r)] = at(static_cast<std::int32_t>(r), 1);
      }
      call.logits.set(0, 0, -1.0);
      call.logits.set(1, vocab / 2, -1.0);
      call.logits.set(1, vocab - 1, -1.0);
      call.logits.set(2, vocab - 1, -0.0);
      call.logits.set(2, vocab / 3, 0.0);
      expect_same(call, "vocabulary " + std::to_string(vocab));
    }
  }
}

TEST(CudaSampleGreedy, EqualsTheCpuOverTheRealVocabulary) {
  REQUIRE_DEVICE();
  std::mt19937 random(11);
  for (const std::int64_t rows : {1, 5}) {
    SampleCase call(rows, large_vocab());
    call.random_logits(random);
    for (std::int64_t r = 0; r < rows; ++r) {
      call.params[static_cast<std::size_t>(r)] =
          at(static_cast<std::int32_t>(r % 4), 3 + static_cast<std::int32_t>(r));
      call.logits.set(r, large_vocab() / 5 * r, 30.0);
      call.logits.set(r, large_vocab() - 1, 30.0);
    }
    expect_same(call, std::to_string(rows) + " rows");
  }
}

TEST(CudaSample, NoRowsAreNoWork) {
  REQUIRE_DEVICE();
  TestDevice& test = *TestDevice::get();
  EXPECT_TRUE(test.ops().sample(test.stream(), {}).ok());
  EXPECT_TRUE(test.stream().synchronize().ok());
}

TEST(CudaSample, WritesTheTokenWhileThereIsRoom) {
  REQUIRE_DEVICE();
  SampleCase call(3, 8);
  call.params = {at(0, 0), at(1, SampleCase::kPositions - 1), at(2, SampleCase::kPositions)};
  for (std::int64_t r = 0; r < 3; ++r) call.set_row(r, {0, 1, 2, 3, 9, 5, 6, 7});
  expect_same(call, "edges of ids");
  EXPECT_EQ(call.on_device().out[2].token, 4);
}

TEST(CudaSample, NaNAndPlusInfinityAnywhereAreNotFinite) {
  REQUIRE_DEVICE();
  for (const std::int64_t vocab : {std::int64_t{3}, std::int64_t{70}, large_vocab()}) {
    std::vector<std::int64_t> places = {0, vocab / 2, vocab - 1, vocab / 16 / 4 * 4};
    SampleCase call(static_cast<std::int64_t>(2 * places.size()), vocab);
    call.counts.emplace(SampleCase::kSlots, vocab, SampleCase::kPositions);
    for (std::int64_t r = 0; r < call.num_rows(); ++r) {
      call.set_row(r, std::vector<double>(static_cast<std::size_t>(vocab), 1.0));
      call.logits.set(r, places[static_cast<std::size_t>(r / 2)],
                      r % 2 ? kInfinity : std::numeric_limits<double>::quiet_NaN());
      auto& p = call.params[static_cast<std::size_t>(r)];
      p = at(static_cast<std::int32_t>(r % 4), 5);
      p.presence_penalty = r % 3 == 0 ? 1.0F : 0.0F;
      p.temperature = r % 3 == 1 ? 1.0F : 0.0F;
      p.given_token = r % 3 == 2 ? 1 : -1;
    }
    for (std::int64_t p = 0; p < 5; ++p) call.ids.set(0, p, static_cast<double>(p % vocab));
    expect_same(call, "vocabulary " + std::to_string(vocab));
    const Sampled device = call.on_device();
    for (const auto& row : device.out) EXPECT_EQ(row.finite, 0);
    EXPECT_EQ(device.counts->counted, std::vector<std::int32_t>(4, 0)) << "an unusable row counted its ids";
  }
}

TEST(CudaSample, MinusInfinityIsALogitUnlessNothingElseIsLeft) {
  REQUIRE_DEVICE();
  SampleCase call(4, 3);
  call.set_row(0, {-kInfinity, 2.0, -kInfinity});
  call.set_row(1, {-kInfinity, -kInfinity, -kInfinity});
  call.set_row(2, {1.0, 2.0, 3.0});
  call.set_row(3, {-kInfinity, 2.0, -kInfinity});
  call.params = {at(0, 1), at(1, 1), at(2, 1), at(3, 1)};
  call.bans = {0, 1, 2};
  call.params[2].num_bans = 3;
  call.params[3].temperature = 1.0F;
  call.params[3].top_k = 2;
  expect_same(call, "minus infinity");
  EXPECT_EQ(call.on_device().out[0].finite, 1);
  EXPECT_EQ(call.on_device().out[1].finite, 0);
  EXPECT_EQ(call.on_device().out[2].finite, 0);
}

TEST(CudaSampleAdjust, BiasesAddUpInTheirOrderAndBansComeLast) {
  REQUIRE_DEVICE();
  std::mt19937 random(12);
  SampleCase call(3, 3000);
  call.random_logits(random);
  call.biases = {{5, -1.0F},    {7, 1e8F},   {7, 1.0F},       {7, -1e8F},
                 {2999, 40.0F}, {519, 3.0F}, {7 + 512, 2.5F}, {0, 9.0F}};
  call.bans = {3, 2999, 7, 2999};
  call.params = {at(0, 1), at(1, 1), at(2, 1)};
  for (auto& p : call.params) {
    p.first_bias = 1;
    p.num_biases = 6;
    p.first_ban = 1;
    p.num_bans = 1;
  }
  call.params[1].num_bans = 3;
  call.params[2].num_biases = 0;
  expect_same_adjusted(call, "biases and bans");
  call.params[0].num_bans = 0;
  expect_same_adjusted(call, "biases alone");
  EXPECT_EQ(call.on_device().out[0].token, 2999);
}

/// Ids of a sequence, with some outside the vocabulary that no count may follow.
void fill_ids(SampleCase& call, std::int32_t slot, std::mt19937& random) {
  for (std::int64_t p = 0; p < SampleCase::kPositions; ++p) {
    const auto id = static_cast<double>(random() % 40 * static_cast<std::uint64_t>(call.logits.cols()) / 40);
    call.ids.set(slot, p, random() % 9 == 0 ? (p % 2 ? -1.0 : static_cast<double>(call.logits.cols())) : id);
  }
}
RowSampling penalised(std::int32_t slot, std::int32_t position, std::mt19937& random) {
  RowSampling sampling = at(slot, position);
  sampling.prompt_tokens = static_cast<std::int32_t>(random() % 20);
  if (random() % 4 != 0) sampling.repetition_penalty = 1.3F;
  if (random() % 2 != 0) sampling.frequency_penalty = 0.7F;
  sampling.presence_penalty = sampling.repetition_penalty == 1.0F || random() % 2 ? 0.4F : 0.0F;
  return sampling;
}

TEST(CudaSampleAdjust, PenaltiesOfIdsCountedAnewAreTheCpusBits) {
  REQUIRE_DEVICE();
  std::mt19937 random(13);
  for (const std::int64_t vocab : {7, 16383, 16384, 16385, 40000}) {
    SampleCase call(4, vocab);
    call.random_logits(random);
    for (std::int32_t slot = 0; slot < 4; ++slot) {
      fill_ids(call, slot, random);
      call.params[static_cast<std::size_t>(slot)] =
          penalised(slot, slot == 3 ? 200 : 11 * (slot + 1), random);
    }
    call.biases = {{2, 3.0F}, {5, -4.0F}};
    call.bans = {6};
    call.params[1].num_biases = 2;
    call.params[2].num_bans = 1;
    expect_same_adjusted(call, "vocabulary " + std::to_string(vocab));
  }
}

std::vector<std::int32_t> seen_sorted(CountsMemory& counts, std::int32_t slot) {
  const auto* const seen = counts.seen.view<std::int32_t>().row(Rows{slot});
  std::vector<std::int32_t> ids(seen, seen + counts.num_seen[static_cast<std::size_t>(slot)]);
  std::sort(ids.begin(), ids.end());
  return ids;
}

TEST(CudaSampleAdjust, KeptCountsEndAsTheCpusWhateverRowsACallHolds) {
  REQUIRE_DEVICE();
  std::mt19937 random(14);
  const std::int64_t vocab = 600;
  SampleCase call(1, vocab);
  call.counts.emplace(SampleCase::kSlots, vocab, SampleCase::kPositions);
  for (std::int32_t slot = 0; slot < 4; ++slot) fill_ids(call, slot, random);
  std::vector<std::int32_t> position(4, 0);
  for (int step = 0; step < 25; ++step) {
    std::vector<RowSampling> params;
    for (std::int32_t slot = 0; slot < 4; ++slot) {
      auto& first = position[static_cast<std::size_t>(slot)];
      if (random() % 5 == 0) continue;
      if (random() % 6 == 0) {  // a sequence begins, or drops ids of its end
        call.counts->counted[static_cast<std::size_t>(slot)] = 0;
        first = static_cast<std::int32_t>(random() % 9);
        fill_ids(call, slot, random);
      } else if (random() % 6 == 0) {  // and again from fewer than were counted
        first = std::max(0, first - 3);
      }
      const auto rows = 1 + static_cast<std::int32_t>(random() % 4);  // a verify step's
      for (std::int32_t i = 0; i < rows; ++i) params.push_back(penalised(slot, ++first, random));
      first = std::min(first, 50);
    }
    SampleCase next(static_cast<std::int64_t>(params.size()), vocab);
    next.random_logits(random);
    next.ids = call.ids;
    next.params = params;
    next.counts = call.counts;
    if (params.empty()) continue;
    auto [cpu, device] = expect_same_adjusted(next, "step " + std::to_string(step));
    EXPECT_TRUE(bytes_of(device.counts->of_token) == bytes_of(cpu.counts->of_token)) << step;
    EXPECT_EQ(device.counts->counted, cpu.counts->counted) << step;
    EXPECT_EQ(device.counts->num_seen, cpu.counts->num_seen) << step;
    EXPECT_TRUE(device.counts->seen.padding_untouched());
    for (std::int32_t slot = 0; slot < 4; ++slot)
      EXPECT_EQ(seen_sorted(*device.counts, slot), seen_sorted(*cpu.counts, slot)) << step;
    call.counts = device.counts;
  }
}

/// Of slot 2, at positions 20 to 22, with a penalty that counts.
SampleCase three_counted_rows(std::mt19937& random) {
  SampleCase call(3, 50);
  call.random_logits(random);
  fill_ids(call, 2, random);
  call.counts.emplace(SampleCase::kSlots, 50, SampleCase::kPositions);
  for (std::int32_t r = 0; r < 3; ++r) {
    call.params[static_cast<std::size_t>(r)] = at(2, 20 + r);
    call.params[static_cast<std::size_t>(r)].frequency_penalty = 0.5F;
  }
  return call;
}

TEST(CudaSampleAdjust, RowsOfOneSlotAreCountedByPositionWhateverTheirOrder) {
  REQUIRE_DEVICE();
  std::mt19937 random(15);
  SampleCase call = three_counted_rows(random);
  Sampled forward = call.on_device();
  SampleCase reversed = call;
  std::reverse(reversed.params.begin(), reversed.params.end());
  for (std::int64_t r = 0; r < 3; ++r)
    for (std::int64_t i = 0; i < 50; ++i) reversed.logits.set(r, i, call.logits.at(2 - r, i));
  Sampled backward = reversed.on_device();
  for (std::int64_t r = 0; r < 3; ++r)
    EXPECT_EQ(backward.scratch.row_bits(r), forward.scratch.row_bits(2 - r)) << r;
  EXPECT_EQ(backward.counts->counted, forward.counts->counted);
  EXPECT_EQ(forward.counts->counted[2], 22);
  EXPECT_TRUE(bytes_of(backward.counts->of_token) == bytes_of(forward.counts->of_token));
}

TEST(CudaSampleAdjust, AnUnusableRowLeavesTheOthersOfItsSlotTheirTurn) {
  REQUIRE_DEVICE();
  std::mt19937 random(24);
  SampleCase call = three_counted_rows(random);
  call.logits.set(0, 49, kInfinity);
  const auto [cpu, device] = expect_same(call, "the first row of a slot is unusable");
  for (std::int64_t r = 1; r < 3; ++r)
    EXPECT_TRUE(device.scratch.row_bits(r) == cpu.scratch.row_bits(r)) << r;
  EXPECT_TRUE(bytes_of(device.counts->of_token) == bytes_of(cpu.counts->of_token));
  EXPECT_EQ(device.counts->counted, cpu.counts->counted);
}

/// Rows at positions of their own, so that each has its random number.
void sample_all(SampleCase& call, const RowSampling& like) {
  for (std::int32_t r = 0; r < static_cast<std::int32_t>(call.num_rows()); ++r) {
    auto& p = call.params[static_cast<std::size_t>(r)];
    p = like;
    p.slot = r % 4;
    p.position = 100 + r;
  }
}

TEST(CudaSampleDraw, EqualsTheCpuForEveryTopK) {
  REQUIRE_DEVICE();
  std::mt19937 random(16);
  for (const std::int64_t vocab : {std::int64_t{1}, std::int64_t{33}, std::int64_t{2048}, large_vocab()}) {
    for (const std::int32_t top_k :
         {0, 1, 2, 20, 50, static_cast<std::int32_t>(vocab) - 1, static_cast<std::int32_t>(vocab),
          static_cast<std::int32_t>(vocab) + 1}) {
      SampleCase call(6, vocab, vocab % 2 ? 1 : 16);
      call.random_logits(random);
      RowSampling sampling;
      sampling.temperature = 1.3F;
      sampling.seed = 0x123456789ULL;
      sampling.top_k = top_k;
      sample_all(call, sampling);
      expect_same(call, "top_k " + std::to_string(top_k) + " of " + std::to_string(vocab));
    }
  }
}

TEST(CudaSampleDraw, TopKKeepsTheLowerIdsOfATie) {
  REQUIRE_DEVICE();
  const std::int64_t vocab = 700;
  for (const std::int32_t top_k : {1, 3, 349, 350, 351, 650}) {
    SampleCase call(TestDevice::get()->small() ? 10 : 40, vocab);
    for (std::int64_t r = 0; r < call.num_rows(); ++r)
      for (std::int64_t i = 0; i < vocab; ++i) call.logits.set(r, i, i % 2 == 0 ? -0.0 : r % 2 ? 0.0 : -0.5);
    RowSampling sampling;
    sampling.temperature = 0.7F;
    sampling.top_k = top_k;
    sample_all(call, sampling);
    expect_same(call, "top_k " + std::to_string(top_k));
  }
}

TEST(CudaSampleDraw, TopPAndMinPKeepWhatTheCpuKeeps) {
  REQUIRE_DEVICE();
  std::mt19937 random(17);
  for (const std::int64_t vocab : {std::int64_t{40}, std::int64_t{1500}, large_vocab()}) {
    for (const float top_p : {0.0F, 0.2F, 0.9F, 0.999F, 1.0F}) {
      for (const float min_p : {0.0F, 0.05F, 2.0F}) {
        for (const std::int32_t top_k : {0, 30}) {
          SampleCase call(3, vocab);
          call.random_logits(random, vocab > 100000 ? 3.0 : 1.5);
          RowSampling sampling;
          sampling.temperature = 0.8F;
          sampling.seed = 99;
          sampling.top_p = top_p;
          sampling.min_p = min_p;
          sampling.top_k = top_k;
          sample_all(call, sampling);
          expect_same(call, "top_p " + std::to_string(top_p) + " min_p " + std::to_string(min_p) + " top_k " +
                                std::to_string(top_k) + " of " + std::to_string(vocab));
        }
      }
    }
  }
}

TEST(CudaSampleDraw, ANumberOnABoundaryBelongsToTheNextToken) {
  REQUIRE_DEVICE();
  // Even weights: token i owns [i, i + 1) / vocab, and some seeds hit an edge exactly.
  const std::int64_t vocab = 4096;
  SampleCase call(1, vocab);
  call.set_row(0, std::vector<double>(static_cast<std::size_t>(vocab), 0.25));
  RowSampling sampling = at(0, 7);
  sampling.temperature = 1.0F;
  double place = 0.5;
  for (; place != std::floor(place) || place == 0.0; ++sampling.seed) {
    ASSERT_LT(sampling.seed, 1U << 24);
    place = uniform(sampling.seed + 1, sampling.position) * static_cast<double>(vocab);
  }
  call.params[0] = sampling;
  const auto both = expect_same(call, "an edge");
  EXPECT_EQ(both.device.out[0].token, static_cast<std::int32_t>(place));
}

/// Which tokens come out of `draws` draws from one row of logits.
std::vector<int> histogram(const std::vector<double>& row, const RowSampling& sampling, std::int64_t draws) {
  SampleCase call(draws, static_cast<std::int64_t>(row.size()));
  for (std::int64_t r = 0; r < draws; ++r) call.set_row(r, row);
  sample_all(call, sampling);
  std::vector<int> counts(row.size(), 0);
  for (const SampledRow& out : call.on_device().out) ++counts[static_cast<std::size_t>(out.token)];
  return counts;
}

TEST(CudaSampleDraw, TopPOverTiesKeepsLowerIds) {
  REQUIRE_DEVICE();
  RowSampling sampling;
  sampling.temperature = 1.0F;
  sampling.top_p = 0.6F;
  sampling.seed = 5;
  const auto counts = histogram({0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -9.0}, sampling,
                                TestDevice::get()->small() ? 60 : 500);
  for (std::size_t id = 0; id < counts.size(); ++id) EXPECT_EQ(counts[id] > 0, id < 7) << id;
}

TEST(CudaSampleDraw, TokensComeAsOftenAsTheyAreLikely) {
  REQUIRE_DEVICE();
  const int draws = TestDevice::get()->small() ? 60 : 30000;
  const std::vector<double> row = {0.0, std::log(4.0), -kInfinity, std::log(2.0), std::log(3.0), 0.0};
  RowSampling sampling;
  sampling.temperature = 1.0F;
  sampling.seed = 21;
  const struct {
    float temperature, top_p;
    std::int32_t top_k;
    std::vector<double> shares;
  } cases[] = {
      {1.0F, 1.0F, 0, {1 / 11.0, 4 / 11.0, 0, 2 / 11.0, 3 / 11.0, 1 / 11.0}},
      {0.5F, 1.0F, 0, {1 / 31.0, 16 / 31.0, 0, 4 / 31.0, 9 / 31.0, 1 / 31.0}},
      {1.0F, 1.0F, 2, {0, 4 / 7.0, 0, 0, 3 / 7.0, 0}},
      {1.0F, 0.7F, 0, {0, 4 / 9.0, 0, 2 / 9.0, 3 / 9.0, 0}},
      {1.0F, 0.9F, 0, {1 / 10.0, 4 / 10.0, 0, 2 / 10.0, 3 / 10.0, 0}},
  };
  for (const auto& c : cases) {
    sampling.temperature = c.temperature;
    sampling.top_p = c.top_p;
    sampling.top_k = c.top_k;
    const auto counts = histogram(row, sampling, draws);
    for (std::size_t id = 0; id < row.size(); ++id) {
      const double sigma = std::sqrt(c.shares[id] * (1.0 - c.shares[id]) / draws);
      EXPECT_NEAR(counts[id] / static_cast<double>(draws), c.shares[id], 4.0 * sigma) << id;
    }
  }
}

TEST(CudaSampleLogprobs, AreOfTheRawLogitsInTheirOrder) {
  REQUIRE_DEVICE();
  std::mt19937 random(18);
  for (const std::int64_t vocab :
       {std::int64_t{2}, std::int64_t{19}, std::int64_t{20}, std::int64_t{21}, large_vocab()}) {
    const std::vector<std::int32_t> wanted = {-1, 0, 1, 5, 19, 20, 21};
    SampleCase call(static_cast<std::int64_t>(wanted.size()), vocab);
    call.random_logits(random, 3.0);
    call.biases = {{1, 50.0F}};
    for (std::size_t r = 0; r < wanted.size(); ++r) {
      call.params[r] = at(static_cast<std::int32_t>(r % 4), 9 + static_cast<std::int32_t>(r));
      call.params[r].num_logprobs = wanted[r];
      call.params[r].num_biases = r % 2 ? 1 : 0;
      if (vocab > 20) {
        for (const std::int64_t tie : {7, 11, 13}) call.logits.set(static_cast<std::int64_t>(r), tie, 20.0);
      }
    }
    expect_same(call, "vocabulary " + std::to_string(vocab));
  }
}

TEST(CudaSampleLogprobs, AlternativesAmongManyTiesAreTheLowestIds) {
  REQUIRE_DEVICE();
  SampleCase call(2, 3000);
  for (std::int64_t i = 0; i < 3000; ++i) {
    call.logits.set(0, i, 1.0);
    call.logits.set(1, i, i % 100 == 50 ? 2.0 : i % 3 == 1 ? 1.0 : -1.0);
  }
  for (std::size_t r = 0; r < 2; ++r) {
    call.params[r] = at(static_cast<std::int32_t>(r), 1);
    call.params[r].num_logprobs = r == 0 ? 20 : 7;
  }
  expect_same(call, "ties");
}

TEST(CudaSample, AGivenTokenIsKeptWrittenAndWeighed) {
  REQUIRE_DEVICE();
  std::mt19937 random(19);
  SampleCase call(4, 900);
  call.random_logits(random);
  call.logits.set(2, 5, -kInfinity);
  call.bans = {5};
  for (std::size_t r = 0; r < 4; ++r) {
    auto& p = call.params[r];
    p = at(static_cast<std::int32_t>(r), 3);
    p.given_token = r == 3 ? 0 : 5;
    p.temperature = 1.0F;
    p.num_bans = 1;
    p.presence_penalty = 1.0F;
    p.num_logprobs = r == 1 ? 4 : 0;
  }
  call.params[2].num_logprobs = -1;
  call.counts.emplace(SampleCase::kSlots, 900, SampleCase::kPositions);
  expect_same(call, "given");
  EXPECT_EQ(call.on_device().counts->counted, std::vector<std::int32_t>(4, 0));
}

/// Every kind of row, for comparisons of whole batches.
SampleCase mixed_rows(std::int64_t rows, std::int64_t vocab, std::mt19937& random) {
  SampleCase call(rows, vocab);
  call.random_logits(random);
  for (std::int32_t slot = 0; slot < 4; ++slot) fill_ids(call, slot, random);
  call.biases = {{1, 2.0F}, {4, -1.0F}};
  call.bans = {2, 3};
  for (std::int32_t r = 0; r < static_cast<std::int32_t>(rows); ++r) {
    auto& p = call.params[static_cast<std::size_t>(r)];
    p = random() % 3 == 0 ? penalised(r % 4, SampleCase::kPositions + r, random)
                          : at(r % 4, SampleCase::kPositions + r);
    p.seed = random();
    if (random() % 4 != 0) p.temperature = 0.5F + static_cast<float>(random() % 10) / 8.0F;
    if (random() % 2 != 0) p.top_k = static_cast<std::int32_t>(random() % 60);
    if (random() % 2 != 0) p.top_p = static_cast<float>(random() % 100) / 100.0F;
    if (random() % 3 == 0) p.min_p = 0.03F;
    if (random() % 3 == 0) p.num_logprobs = static_cast<std::int32_t>(random() % 21);
    if (random() % 3 == 0) p.num_biases = 2;
    if (random() % 3 == 0) p.num_bans = 2;
    if (random() % 9 == 0)
      p.given_token = static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(vocab));
  }
  return call;
}

TEST(CudaSample, RowsOfEveryKindEqualTheCpus) {
  REQUIRE_DEVICE();
  std::mt19937 random(20);
  const bool small = TestDevice::get()->small();
  for (const std::int64_t vocab : {std::int64_t{97}, std::int64_t{3001}, large_vocab()}) {
    const std::int64_t rows = small ? 40 : vocab > 100000 ? 24 : 512;
    expect_same(mixed_rows(rows, vocab, random), "vocabulary " + std::to_string(vocab));
  }
}

TEST(CudaSample, ARowsBitsDoNotDependOnTheRowsBesideIt) {
  REQUIRE_DEVICE();
  std::mt19937 random(22);
  const bool small = TestDevice::get()->small();
  const std::int64_t vocab = small ? 300 : 20011;
  const SampleCase whole = mixed_rows(small ? 40 : 300, vocab, random);
  const auto together = whole.on_device().out;
  std::vector<std::int64_t> sizes = {1, 2, 7, 33};
  if (!small) sizes.insert(sizes.end(), {64, 70, 129, 299});
  for (const std::int64_t size : sizes) {
    for (std::int64_t first = 0; first < whole.num_rows(); first += 5 * size) {
      const std::int64_t rows = std::min(size, whole.num_rows() - first);
      SampleCase part(rows, vocab);
      part.ids = whole.ids;
      part.biases = whole.biases;
      part.bans = whole.bans;
      for (std::int64_t r = 0; r < rows; ++r) {
        part.params[static_cast<std::size_t>(r)] = whole.params[static_cast<std::size_t>(first + r)];
        for (std::int64_t i = 0; i < vocab; ++i) part.logits.set(r, i, whole.logits.at(first + r, i));
      }
      const auto alone = part.on_device().out;
      for (std::int64_t r = 0; r < rows; ++r) {
        EXPECT_TRUE(
            same_bits(alone[static_cast<std::size_t>(r)], together[static_cast<std::size_t>(first + r)]))
            << "row " << first + r << " in a batch of " << rows;
      }
    }
  }
}

TEST(CudaSample, ValuesOutOfRangeAreReportedAndTheNextCallWorks) {
  REQUIRE_DEVICE();
  std::mt19937 random(23);
  const std::int64_t vocab = 40;
  SampleCase good(3, vocab);
  good.random_logits(random);
  good.biases = {{1, 2.0F}, {40, 1.0F}, {-1, 1.0F}};
  good.bans = {2, 40, -1};
  good.params = {at(0, 1), at(1, 1), at(2, 1)};
  const struct {
    std::string value;
    std::function<void(RowSampling&)> spoil;
  } cases[] = {
      {"-1", [](RowSampling& p) { p.slot = -1; }},
      {"4", [](RowSampling& p) { p.slot = 4; }},
      {"-2", [](RowSampling& p) { p.position = -2; }},
      {"40", [](RowSampling& p) { p.given_token = 40; }},
      {"3", [](RowSampling& p) { p.first_bias = 3, p.num_biases = 1; }},
      {"-1", [](RowSampling& p) { p.first_bias = -1, p.num_biases = 1; }},
      {"2", [](RowSampling& p) { p.first_ban = 2, p.num_bans = 2; }},
      {"0", [](RowSampling& p) { p.num_bans = -1; }},
      {"40", [](RowSampling& p) { p.num_biases = 2; }},
      {"-1", [](RowSampling& p) { p.first_bias = 2, p.num_biases = 1; }},
      {"40", [](RowSampling& p) { p.num_bans = 2; }},
      {"-1", [](RowSampling& p) { p.first_ban = 2, p.num_bans = 1; }},
  };
  for (const auto& c : cases) {
    SampleCase broken = good;
    c.spoil(broken.params[1]);
    EXPECT_FALSE(broken.on_cpu().status.ok()) << "the case is none";
    const Sampled device = broken.on_device();
    ASSERT_FALSE(device.status.ok()) << c.value;
    EXPECT_EQ(device.status.error().kind, gpu::DeviceError::Kind::refused);
    EXPECT_NE(device.status.error().what.find("sampl"), std::string::npos) << device.status.error().what;
    EXPECT_NE(device.status.error().what.find("row 1"), std::string::npos) << device.status.error().what;
    EXPECT_NE(device.status.error().what.find(c.value), std::string::npos) << device.status.error().what;
    EXPECT_EQ(device.ids.at(1, 1), -1.0) << "a broken row wrote a token";
    expect_same(good, "after a refused step");
  }
}

}  // namespace
}  // namespace kernels
