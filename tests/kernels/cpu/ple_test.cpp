#include "kernels/ple.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/cpu/cpu_ops.h"
#include "tests/kernels/cpu/sequence_rows.h"

namespace kernels::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int32_t kEos = 248044;
constexpr int kHeads = 16;

/// The published constants of the real model (model-spec 5.1).
const std::vector<std::int64_t> kMultipliers{23703573157769, 20109073645365, 8052911324071};
const std::vector<std::int64_t> kPrimes{20000003, 20000023, 20000033, 20000047, 20000059, 20000063,
                                        20000069, 20000077, 20000081, 20000093, 20000107, 20000147,
                                        20000153, 20000159, 20000161, 20000171};
const std::vector<std::int64_t> kOffsets{0,         20000003,  40000026,  60000059,  80000106,  100000165,
                                         120000228, 140000297, 160000374, 180000455, 200000548, 220000655,
                                         240000802, 260000955, 280001114, 300001275};

using RowIds = std::vector<std::vector<std::int64_t>>;

/// Row ids of positions [first, end) of a sequence whose device row of ids is `ids`.
RowIds hash(const std::vector<std::int32_t>& ids, std::int32_t first, std::int32_t end, int num_workers = 1) {
  const std::int32_t slot = 1;
  const auto width = static_cast<std::int64_t>(ids.size());
  std::vector<std::int32_t> slots(ids.size() * 2, -7);  // another sequence's ids in slot 0
  std::copy(ids.begin(), ids.end(), slots.begin() + width);
  const SegmentRows rows(Form::prefill, {{slot, first, end - first}});
  std::vector<std::int64_t> out(static_cast<std::size_t>(end - first) * kHeads, -1);
  NgramRowsArgs args;
  args.rows = {out.data(), {end - first}, {kHeads}, {kHeads}};
  args.ids = {slots.data(), {2}, {width}, {width}};
  args.multipliers = view_of(kMultipliers);
  args.sizes = view_of(kPrimes);
  args.offsets = view_of(kOffsets);
  args.ngram_size = 3;
  args.heads_per_ngram = 8;
  args.eos = kEos;
  ThreadsStream stream(num_workers);
  EXPECT_TRUE(cpu::ngram_rows(stream, rows.batch(), args).ok());
  RowIds result;
  for (auto it = out.begin(); it != out.end(); it += kHeads) result.emplace_back(it, it + kHeads);
  return result;
}

TEST(NgramRows, PublishedVectorsAreReproduced) {
  const std::vector<std::int32_t> ids{9707, 11, 1879, 248044, 314, 2001, 248319, 0, 248044, 248044, 77};
  const RowIds rows = hash(ids, 0, 11);
  EXPECT_THAT(rows[0], ElementsAre(16410909, 39682429, 55103279, 60931720, 87006904, 116506179, 131512017,
                                   152932897, 169641436, 182022480, 209277433, 237891023, 256841529,
                                   277007269, 290665954, 300984276));
  EXPECT_THAT(rows[3], ElementsAre(18827606, 27700912, 56521518, 65780303, 81132822, 100518937, 120474864,
                                   142052741, 163793416, 184135950, 219854666, 227756662, 248975183,
                                   271245822, 285569892, 318943450));
  EXPECT_THAT(rows[4], ElementsAre(8260854, 33106041, 59264976, 60072089, 98935463, 112687005, 134061582,
                                   143955837, 178749106, 199051338, 215607266, 231149282, 254184348,
                                   278446456, 293473221, 310651623));
  EXPECT_THAT(rows[9], ElementsAre(9663979, 26558231, 56120240, 74755659, 80459717, 109265651, 132697467,
                                   151022725, 170054832, 192967038, 200687722, 225763581, 259275737,
                                   272983544, 297596484, 300986548));
  EXPECT_THAT(rows[10], ElementsAre(16611476, 29512305, 49704971, 66165983, 89881645, 105251896, 139055756,
                                    152191225, 178497739, 192880870, 205859405, 228292887, 258357841,
                                    269648670, 287018169, 315908561));
}

TEST(NgramRows, EarlierIdsEnterTheHash) {
  EXPECT_THAT(
      hash({123, 456, 789}, 2, 3)[0],
      ElementsAre(2491316, 28761835, 51917996, 68359989, 88189145, 101470006, 131395511, 157970613, 166816437,
                  197523925, 206707499, 235951520, 251357128, 266767674, 285239060, 317603747));
}

/// The segment rule said another way: a token reaches back to the token after the last eos strictly before
/// it.
TEST(NgramRows, ContextReachesBackToTheLastEosBeforeTheToken) {
  std::mt19937 rng(1);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::int32_t> ids(1 + rng() % 12);
    for (std::int32_t& id : ids) id = rng() % 5 == 0 ? kEos : static_cast<std::int32_t>(5 + rng() % 4);
    const auto n = static_cast<std::int32_t>(ids.size());
    const RowIds rows = hash(ids, 0, n);
    std::int32_t segment_start = 0;
    for (std::int32_t p = 0; p < n; ++p) {
      std::uint64_t mix = 0;
      std::vector<std::int64_t> expected;
      for (std::int32_t s = 0; s < 3; ++s) {
        const std::int32_t id =
            p - s >= segment_start || s == 0 ? ids[static_cast<std::size_t>(p - s)] : kEos;
        mix ^= static_cast<std::uint64_t>(id) *
               static_cast<std::uint64_t>(kMultipliers[static_cast<std::size_t>(s)]);
        for (std::size_t h = 0; s > 0 && h < 8; ++h) {
          const std::size_t head = static_cast<std::size_t>(s - 1) * 8 + h;
          expected.push_back(static_cast<std::int64_t>(mix % static_cast<std::uint64_t>(kPrimes[head])) +
                             kOffsets[head]);
        }
      }
      EXPECT_EQ(rows[static_cast<std::size_t>(p)], expected) << "round " << round << " position " << p;
      if (ids[static_cast<std::size_t>(p)] == kEos) segment_start = p + 1;
    }
  }
}

TEST(NgramRows, AnySplitAndAnyNumberOfWorkersGiveTheSameRows) {
  std::mt19937 rng(2);
  std::vector<std::int32_t> ids(100);
  for (std::int32_t& id : ids) id = rng() % 7 == 0 ? kEos : static_cast<std::int32_t>(rng() % 248320);
  const RowIds whole = hash(ids, 0, 100, 3);
  for (std::int32_t cut = 1; cut < 100; ++cut) {
    RowIds parts = hash(ids, 0, cut, 2);
    const RowIds rest = hash(ids, cut, 100);
    parts.insert(parts.end(), rest.begin(), rest.end());
    ASSERT_EQ(parts, whole) << "cut " << cut;
  }
}

struct Gather {
  std::vector<std::int64_t> ids;
  gpu::Status run(Floats& y, gpu::ConstMatrix table, std::int64_t heads, int num_workers = 1) const {
    ThreadsStream stream(num_workers);
    return cpu::gather_table(stream, {y.view(), table, {ids.data(), {y.rows}, {heads}, {heads}}});
  }
};

TEST(GatherTable, RowsAreConcatenatedHeadByHead) {
  std::mt19937 rng(3);
  Floats table(50, 5);
  table.randomize(rng);
  Gather gather;
  for (int i = 0; i < 40 * 3; ++i) gather.ids.push_back(static_cast<std::int64_t>(rng() % 50));
  Floats y(40, 15);
  ASSERT_TRUE(gather.run(y, table.view(), 3, 3).ok());
  for (std::int64_t r = 0; r < 40; ++r) {
    for (std::int64_t h = 0; h < 3; ++h) {
      EXPECT_TRUE(same_bits(y.row(r) + h * 5, table.row(gather.ids[static_cast<std::size_t>(r * 3 + h)]), 5));
    }
  }
}

TEST(GatherTable, HalfPrecisionTablesWidenExactly) {
  const std::vector<gpu::bf16> bf16{{0x3951}, {0xBF80}, {0x0001}, {0x7F80}};
  Floats y(1, 4);
  const gpu::ConstMatrix as_bf16{
      reinterpret_cast<const std::byte*>(bf16.data()), gpu::DType::bf16, {1}, {4}, {4}};
  ASSERT_TRUE(Gather{{0}}.run(y, as_bf16, 1).ok());
  EXPECT_EQ(y.at(0, 0), 0.00019931793212890625F);
  EXPECT_EQ(y.at(0, 1), -1.0F);
  EXPECT_EQ(y.at(0, 2), 0x1p-133F);
  EXPECT_EQ(y.at(0, 3), std::numeric_limits<float>::infinity());

  const std::vector<gpu::f16> f16{{0x3C00}, {0xC100}, {0x0001}, {0x83FF},
                                  {0x7BFF}, {0xFC00}, {0x8000}, {0x0400}};
  Floats z(1, 8);
  const gpu::ConstMatrix as_f16{
      reinterpret_cast<const std::byte*>(f16.data()), gpu::DType::f16, {1}, {8}, {8}};
  ASSERT_TRUE(Gather{{0}}.run(z, as_f16, 1).ok());
  const float expected[] = {
      1.0F,  -2.5F,   0x1p-24F, -1023 * 0x1p-24F, 65504.0F, -std::numeric_limits<float>::infinity(),
      -0.0F, 0x1p-14F};
  EXPECT_TRUE(same_bits(z.row(0), expected, 8));
}

TEST(GatherTable, AnIdOutsideTheTableIsRefusedAndNothingIsWritten) {
  Floats table(50, 4);
  table.fill(1.0F);
  for (const std::int64_t bad : {std::int64_t{-1}, std::int64_t{50}, std::int64_t{1} << 40}) {
    Floats y(3, 8);
    const Floats untouched = y;
    const gpu::Status status = Gather{{0, 1, 2, 3, 4, bad}}.run(y, table.view(), 2);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().kind, gpu::DeviceError::Kind::refused);
    EXPECT_THAT(status.error().what, HasSubstr("row 2 head 1: id " + std::to_string(bad)));
    EXPECT_TRUE(same_bits(y, untouched));
  }
}

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

/// gv of one stream from its score in double precision, model-spec 2.5.
double gate_of(double score) {
  if (score == 0.0) return sigmoid(0.0);
  return sigmoid(std::copysign(std::sqrt(std::max(std::abs(score), 1e-6)), score));
}

TEST(PleGate, MatchesDoublePrecision) {
  std::mt19937 rng(4);
  for (const std::int64_t hidden : {16, 64, 256, 2560}) {
    Floats key(7, 4 * hidden), query(7, 4 * hidden), value(7, hidden), gv(7, 4 * hidden);
    key.randomize(rng);
    query.randomize(rng);
    value.randomize(rng);
    ThreadsStream stream(3);
    ASSERT_TRUE(cpu::ple_gate(stream, {gv.view(), key.view(), query.view(), value.view(), 4}).ok());
    for (std::int64_t r = 0; r < 7; ++r) {
      for (std::int64_t j = 0; j < 4; ++j) {
        double score = 0.0;
        for (std::int64_t i = j * hidden; i < (j + 1) * hidden; ++i) {
          score += double{key.at(r, i)} * double{query.at(r, i)};
        }
        const double gate = gate_of(score / std::sqrt(static_cast<double>(hidden)));
        for (std::int64_t i = 0; i < hidden; ++i) {
          const double expected = gate * double{value.at(r, i)};
          EXPECT_NEAR(gv.at(r, j * hidden + i), expected, 4e-6 * std::abs(expected) + 1e-9);
        }
      }
    }
  }
}

TEST(PleGate, TheClampComesBeforeTheSquareRootAndZeroStaysZero) {
  const std::int64_t hidden = 16;
  // One non-zero product per stream: scores 0, 1e-9, -1e-9, 4.
  Floats key(1, 4 * hidden), query(1, 4 * hidden), value(1, hidden), gv(1, 4 * hidden);
  key.fill(0.0F);
  query.fill(1.0F);
  value.fill(1.0F);
  key.at(0, 1 * hidden) = 4e-9F;
  key.at(0, 2 * hidden) = -4e-9F;
  key.at(0, 3 * hidden) = 16.0F;
  ThreadsStream stream;
  ASSERT_TRUE(cpu::ple_gate(stream, {gv.view(), key.view(), query.view(), value.view(), 4}).ok());
  EXPECT_EQ(gv.at(0, 0), 0.5F);
  EXPECT_NEAR(gv.at(0, 1 * hidden), sigmoid(1e-3), 1e-7);
  EXPECT_NEAR(gv.at(0, 2 * hidden), sigmoid(-1e-3), 1e-7);
  EXPECT_NEAR(gv.at(0, 3 * hidden), sigmoid(2.0), 1e-6);
}

TEST(PleGate, ARowDoesNotDependOnTheOthers) {
  std::mt19937 rng(5);
  Floats key(20, 256), query(20, 256), value(20, 64), all(20, 256);
  key.randomize(rng);
  query.randomize(rng);
  value.randomize(rng);
  ThreadsStream stream(2);
  ASSERT_TRUE(cpu::ple_gate(stream, {all.view(), key.view(), query.view(), value.view(), 4}).ok());
  for (std::int64_t r = 0; r < 20; ++r) {
    Floats alone(1, 256);
    ASSERT_TRUE(
        cpu::ple_gate(stream, {alone.view(), key.part(r, 1), query.part(r, 1), value.part(r, 1), 4}).ok());
    EXPECT_TRUE(same_bits(alone.row(0), all.row(r), 256));
  }
}

}  // namespace
}  // namespace kernels::testing
