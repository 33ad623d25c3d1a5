#include "kernels/qsa.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/cpu/cpu_ops.h"
#include "tests/kernels/cpu/sequence_rows.h"

namespace kernels::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAreArray;

constexpr std::int32_t kRatio = 4, kSlots = 2, kDim = 32, kHeads = 3, kMaxPositions = 320;

/// One index of two sequences; ring and closed keys begin as NaN.
struct Index {
  std::int32_t ring_rows, block;
  ShuffledPages pages;
  NormWeight norm_weight = NormWeight::one_plus;
  std::vector<float> k_norm = std::vector<float>(kDim), inv_freq = std::vector<float>(8);
  Floats ring, closed;

  Index(std::int32_t num_ring_rows, std::int32_t page_block, unsigned seed)
      : Index(num_ring_rows, page_block, std::mt19937(seed)) {}
  Index(std::int32_t num_ring_rows, std::int32_t page_block, std::mt19937 rng)
      : ring_rows(num_ring_rows),
        block(page_block),
        pages(kSlots, kMaxPositions, page_block, rng),
        ring(std::int64_t{kSlots} * num_ring_rows, kDim),
        closed(pages.num_pages() * page_block / kRatio, kDim) {
    std::uniform_real_distribution<float> small(-0.3F, 0.3F);
    for (float& w : k_norm) w = small(rng);
    for (std::size_t i = 0; i < inv_freq.size(); ++i) {
      inv_freq[i] = static_cast<float>(std::pow(1e4, -static_cast<double>(i) / 8.0));
    }
  }

  void append(const std::vector<Segment>& segments, gpu::ConstMatrix raw, Form form = Form::prefill,
              int num_workers = 1) {
    const SegmentRows rows(form, segments);
    QsaIndexAppendArgs args;
    args.closed = closed.view();
    args.ring = ring.view();
    args.raw = raw;
    args.ring_rows = ring_rows;
    args.ratio = kRatio;
    args.pages = pages.tables();
    args.k_norm = vector_of(k_norm);
    args.norm_weight = norm_weight;
    args.rope = {view_of(inv_freq), 1.25F};
    ThreadsStream stream(num_workers);
    ASSERT_TRUE(cpu::qsa_index_append(stream, rows.batch(), args).ok());
  }
  void append_cut(std::int32_t slot, const Floats& raw, const std::vector<std::int32_t>& cuts,
                  Form form = Form::prefill) {
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
      const std::int32_t n = cuts[i + 1] - cuts[i];
      append({{slot, cuts[i], n}}, raw.part(cuts[i], n), form, 1 + static_cast<int>(i % 3));
    }
  }

  std::int64_t closed_row(std::int32_t slot, std::int32_t j) const {
    return pages.row_of(slot, j * kRatio) / kRatio;
  }
  std::vector<double> expected(const Floats& raw, std::int32_t j) const {
    std::vector<double> key(kDim);
    double squares = 0.0;
    for (std::size_t i = 0; i < kDim; ++i) {
      for (std::int32_t t = 0; t < kRatio; ++t)
        key[i] += double{raw.at(j * kRatio + t, static_cast<std::int64_t>(i))} / kRatio;
      squares += key[i] * key[i];
    }
    for (std::size_t i = 0; i < kDim; ++i)
      key[i] *= (1.0 + double{k_norm[i]}) / std::sqrt(squares / kDim + 1e-6);
    for (std::size_t i = 0; i < inv_freq.size(); ++i) {
      const double angle = static_cast<float>(j * kRatio) * inv_freq[i];
      const double c = 1.25 * std::cos(angle), s = 1.25 * std::sin(angle), low = key[i], high = key[i + 8];
      key[i] = low * c - high * s;
      key[i + 8] = high * c + low * s;
    }
    return key;
  }
};

TEST(QsaIndexAppend, ABlockKeyIsTheNormedMeanRotatedToTheBlocksFirstPosition) {
  std::mt19937 rng(31);
  for (const std::int32_t block : {16, 32, 64}) {
    Index index(8, block, 31);
    Floats raw(300, kDim);
    raw.randomize(rng);
    index.append_cut(1, raw, {0, 300});
    for (std::int32_t j = 0; j < 75; ++j) {
      const std::vector<double> expected = index.expected(raw, j);
      for (std::int64_t i = 0; i < kDim; ++i) {
        EXPECT_NEAR(index.closed.at(index.closed_row(1, j), i), expected[static_cast<std::size_t>(i)], 5e-6);
      }
    }
    for (std::int32_t j = 0; j < 75; ++j) EXPECT_TRUE(std::isnan(index.closed.at(index.closed_row(0, j), 0)));
  }
}

TEST(QsaIndexAppend, AWeightStoredWithItsOneGivesTheSameBits) {
  std::mt19937 rng(36);
  Index added(8, 16, 36);
  Index stored = added;
  stored.norm_weight = NormWeight::plain;
  for (float& w : stored.k_norm) w = 1.0F + w;
  Floats raw(64, kDim);
  raw.randomize(rng);
  added.append_cut(1, raw, {0, 64});
  stored.append_cut(1, raw, {0, 64});
  EXPECT_TRUE(same_bits(stored.closed, added.closed));
}

TEST(QsaIndexAppend, ABlockIsWrittenByItsLastPositionAndNotBefore) {
  std::mt19937 rng(32);
  Index index(4, 16, 32);
  Floats raw(12, kDim);
  raw.randomize(rng);
  index.append_cut(0, raw, {0, 2, 3});
  EXPECT_TRUE(std::isnan(index.closed.at(index.closed_row(0, 0), 0)));
  index.append({{0, 3, 1}}, raw.part(3, 1), Form::decode);
  EXPECT_FALSE(std::isnan(index.closed.at(index.closed_row(0, 0), 0)));
  EXPECT_TRUE(std::isnan(index.closed.at(index.closed_row(0, 1), 0)));
}

TEST(QsaIndexAppend, AnyCutIntoCallsOfEitherFormGivesTheSameBits) {
  std::mt19937 rng(33);
  std::cout << "seed 33\n";
  for (int round = 0; round < 60; ++round) {
    const std::int32_t ring_rows = kRatio * (1 + round % 3);
    Index whole(ring_rows, 16, 33), cut(ring_rows, 16, 33);
    Floats raw(101, kDim);
    raw.randomize(rng);
    whole.append_cut(1, raw, {0, 101});
    cut.append_cut(1, raw, random_cuts(101, 1, round % 2 == 0 ? 3 : 30, rng),
                   round % 4 == 0 ? Form::decode : Form::prefill);
    ASSERT_TRUE(same_bits(cut.closed, whole.closed)) << "round " << round;
    ASSERT_TRUE(same_bits(cut.ring, whole.ring)) << "round " << round;
  }
}

TEST(QsaIndexAppend, SequencesOfOneBatchDoNotMeet) {
  std::mt19937 rng(34);
  Index together(8, 16, 34), apart(8, 16, 34);
  Floats a(30, kDim), b(30, kDim), both(30, kDim);
  a.randomize(rng);
  b.randomize(rng);
  // Rows of slot 1 then slot 0, twice: 5 + 9, then 10 + 6.
  const std::vector<std::vector<Segment>> calls{{{1, 0, 5}, {0, 0, 9}}, {{0, 9, 6}, {1, 5, 10}}};
  for (const auto& segments : calls) {
    std::int64_t r = 0;
    for (const Segment& s : segments) {
      for (std::int32_t i = 0; i < s.num_rows; ++i, ++r) {
        std::copy_n((s.slot == 0 ? a : b).row(s.first_position + i), kDim, both.row(r));
      }
    }
    together.append(segments, both.part(0, r), Form::prefill, 3);
  }
  apart.append_cut(0, a, {0, 15});
  apart.append_cut(1, b, {0, 15});
  EXPECT_TRUE(same_bits(together.closed, apart.closed));
  EXPECT_TRUE(same_bits(together.ring, apart.ring));
}

/// Rejected draft rows write wrong raw keys at positions that are written again; committed keys must survive
/// in the ring.
TEST(QsaIndexAppend, RejectedDraftRowsLeaveNoTrace) {
  std::mt19937 rng(35);
  constexpr std::int32_t kDrafts = 3, kRing = kRatio * ((kRatio + kDrafts + kRatio - 1) / kRatio);
  Floats raw(120, kDim);
  raw.randomize(rng);
  Index plain(kRing, 16, 35), drafted(kRing, 16, 35);
  plain.append_cut(0, raw, {0, 120});
  for (std::int32_t p = 0; p < 120;) {
    const std::int32_t rows = std::min(1 + static_cast<std::int32_t>(rng() % (kDrafts + 1)), 120 - p);
    const std::int32_t accepted = 1 + static_cast<std::int32_t>(rng()) % rows;
    const std::int32_t kept = std::clamp(accepted, 1, rows);
    Floats fed = raw;
    for (std::int32_t i = kept; i < rows; ++i) std::fill_n(fed.row(p + i), kDim, 9.9F);
    drafted.append({{0, p, rows}}, fed.part(p, rows), Form::decode);
    p += kept;
    for (std::int32_t j = 0; j < p / kRatio; ++j) {
      const std::int64_t row = drafted.closed_row(0, j);
      ASSERT_TRUE(same_bits(drafted.closed.row(row), plain.closed.row(row), kDim))
          << "block " << j << " at " << p;
    }
  }
}

/// Closed keys, queries and a selection of `top` blocks.
struct Select {
  std::int32_t top, num_heads = kHeads;
  Index index{8, 16, 36};

  explicit Select(std::int32_t top_blocks) : top(top_blocks) {}

  std::vector<std::int32_t> run(const std::vector<Segment>& segments, gpu::ConstMatrix q, int num_workers = 1,
                                Form form = Form::prefill) {
    const SegmentRows rows(form, segments);
    const std::int64_t n = rows.batch().num_rows.n;
    std::vector<std::int32_t> blocks(static_cast<std::size_t>(n * top), -1);
    Floats scores(n, (rows.batch().max_position + 1) / kRatio);
    QsaSelectArgs args;
    args.blocks = {blocks.data(), {n}, {top}, {top}};
    args.scores = scores.view();
    args.q = q;
    args.closed = index.closed.view();
    args.num_heads = num_heads;
    args.dim = kDim;
    args.ratio = kRatio;
    args.top_blocks = top;
    args.pages = index.pages.tables();
    ThreadsStream stream(num_workers);
    EXPECT_TRUE(cpu::qsa_select(stream, rows.batch(), args).ok());
    return blocks;
  }
  void set_key(std::int32_t j, float value) {
    std::fill_n(index.closed.row(index.closed_row(0, j)), kDim, value);
  }
  void set_key_at(std::int32_t j, std::int64_t i, float value) {
    index.closed.at(index.closed_row(0, j), i) = value;
  }
  double score(const float* q, std::int32_t j) const {
    double sum = 0.0;
    for (std::int64_t a = 0; a < num_heads; ++a) {
      double product = 0.0;
      for (std::int64_t i = 0; i < kDim; ++i) {
        product += double{q[a * kDim + i]} * double{index.closed.at(index.closed_row(0, j), i)};
      }
      sum += std::max(0.0, product);
    }
    return sum;
  }
};

TEST(QsaSelect, TheBestBlocksAscendingAndOnlyPastTheBound) {
  std::mt19937 rng(37);
  Select select(12);
  Floats raw(300, kDim), q(300, kHeads * kDim);
  raw.randomize(rng);
  q.randomize(rng);
  select.index.append_cut(0, raw, {0, 300});
  const std::vector<std::int32_t> blocks = select.run({{0, 0, 300}}, q.view(), 3);
  for (std::int32_t p = 0; p < 300; ++p) {
    const std::vector<std::int32_t> got(blocks.begin() + p * 12, blocks.begin() + (p + 1) * 12);
    const std::int32_t closed = (p + 1) / kRatio;
    if (closed <= 12) {  // n <= 51 is all positions; 52 is the first that is not
      EXPECT_LE(p + 1, 51);
      EXPECT_THAT(got, Each(-1)) << "row " << p << " was written";
      continue;
    }
    std::vector<std::int32_t> order(static_cast<std::size_t>(closed));
    std::iota(order.begin(), order.end(), 0);
    std::vector<double> scores;
    for (const std::int32_t j : order) scores.push_back(select.score(q.row(p), j));
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
      return scores[static_cast<std::size_t>(a)] > scores[static_cast<std::size_t>(b)];
    });
    const double gap =
        scores[static_cast<std::size_t>(order[11])] - scores[static_cast<std::size_t>(order[12])];
    if (gap < 1e-4) continue;  // single precision may not decide this one
    order.resize(12);
    std::sort(order.begin(), order.end());
    EXPECT_THAT(got, ElementsAreArray(order)) << "row " << p;
  }
}

TEST(QsaSelect, TiesGoToTheLowerBlock) {
  Select select(5);
  Floats q(1, kHeads * kDim);
  q.fill(1.0F);
  for (std::int32_t j = 0; j < 40; ++j) select.set_key(j, -1.0F);  // relu: every score is exactly zero
  EXPECT_THAT(select.run({{0, 159, 1}}, q.view()), ElementsAreArray({0, 1, 2, 3, 4}));
  for (const std::int32_t j : {7, 21, 22, 30, 31, 39})
    select.set_key(j, 1.0F);  // six equal bests for five places
  EXPECT_THAT(select.run({{0, 159, 1}}, q.view()), ElementsAreArray({7, 21, 22, 30, 31}));
  select.set_key(39, 2.0F);
  EXPECT_THAT(select.run({{0, 159, 1}}, q.view()), ElementsAreArray({7, 21, 22, 30, 39}));
  select.set_key(3, 0.0F);  // one more zero among zeros changes nothing
  for (const std::int32_t j : {7, 21, 22, 30}) select.set_key(j, -1.0F);
  EXPECT_THAT(select.run({{0, 159, 1}}, q.view()), ElementsAreArray({0, 1, 2, 31, 39}));
}

TEST(QsaSelect, ReluComesBeforeTheSumOverHeads) {
  Select select(1);
  Floats q(1, kHeads * kDim);
  q.fill(0.0F);
  q.at(0, 0) = 1.0F;             // head 0 looks at column 0
  q.at(0, kDim + 1) = 1.0F;      // head 1 at column 1
  q.at(0, 2 * kDim + 2) = 1.0F;  // head 2 at column 2
  for (std::int32_t j = 0; j < 2; ++j) select.set_key(j, 0.0F);
  select.set_key_at(0, 0, 1.0F);
  select.set_key_at(1, 0, 1.5F);  // 1.5 after relu, -8.5 without
  select.set_key_at(1, 1, -10.0F);
  EXPECT_THAT(select.run({{0, 7, 1}}, q.view()), ElementsAreArray({1}));
}

TEST(QsaSelect, NaNCountsAsTheWorstScore) {
  Select select(3);
  Floats q(1, kHeads * kDim);
  q.fill(1.0F);
  for (std::int32_t j = 0; j < 5; ++j) select.set_key(j, -1.0F);
  select.set_key(0, kNaN);
  EXPECT_THAT(select.run({{0, 19, 1}}, q.view()), ElementsAreArray({1, 2, 3}));
  for (const std::int32_t j : {1, 2, 3})
    select.set_key(j, kNaN);  // four NaNs: the lower indices fill the places
  EXPECT_THAT(select.run({{0, 19, 1}}, q.view()), ElementsAreArray({0, 1, 4}));
}

TEST(QsaSelect, ARowSelectsTheSameAloneAndInAnyBatch) {
  std::mt19937 rng(38);
  Select select(12);
  Floats raw(300, kDim), q(300, kHeads * kDim);
  raw.randomize(rng);
  q.randomize(rng);
  select.index.append_cut(0, raw, {0, 300});
  const std::vector<std::int32_t> all = select.run({{0, 0, 300}}, q.view());
  EXPECT_EQ(all, select.run({{0, 0, 300}}, q.view(), 2));
  EXPECT_EQ(all, select.run({{0, 0, 300}}, q.view(), 3));
  for (std::int32_t p = 0; p < 300; ++p) {
    const std::vector<std::int32_t> in_batch(all.begin() + p * 12, all.begin() + (p + 1) * 12);
    ASSERT_EQ(select.run({{0, p, 1}}, q.part(p, 1), 1, Form::decode), in_batch) << "row " << p;
  }
}

}  // namespace
}  // namespace kernels::testing
