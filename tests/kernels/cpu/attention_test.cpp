#include "kernels/attention.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/page_rows.h"
#include "tests/kernels/cpu/sequence_rows.h"

namespace kernels::testing {
namespace {

constexpr std::int32_t kRatio = 4, kTopBlocks = 32;
constexpr std::int32_t kBound = kRatio * kTopBlocks + kRatio - 1;  // longest list that no selection shortens

/// Keys and values of several sequences in shuffled pages. Only the first `lengths[slot]` positions are
/// written.
struct Caches {
  std::int32_t num_heads, num_kv_heads, head_dim;
  ShuffledPages pages;
  Floats k, v;

  Caches(std::vector<std::int32_t> lengths, std::int32_t heads, std::int32_t kv_heads, std::int32_t dim,
         std::int32_t block, std::mt19937& rng)
      : num_heads(heads),
        num_kv_heads(kv_heads),
        head_dim(dim),
        pages(static_cast<std::int32_t>(lengths.size()), 512, block, rng),
        k(pages.num_pages() * block, kv_heads * dim),
        v(pages.num_pages() * block, kv_heads * dim) {
    for (std::size_t slot = 0; slot < lengths.size(); ++slot) {
      const std::int32_t n = lengths[slot];
      Floats new_k(n, k.cols), new_v(n, v.cols);
      new_k.randomize(rng);
      new_v.randomize(rng);
      const SegmentRows rows(Form::prefill, {{static_cast<std::int32_t>(slot), 0, n}});
      ThreadsStream stream;
      EXPECT_TRUE(cpu::kv_append(stream, rows.batch(),
                                 {k.view(), v.view(), new_k.view(), new_v.view(), pages.tables()})
                      .ok());
    }
  }

  AttentionArgs args(gpu::Matrix o, gpu::ConstMatrix q, const Selection& selection = {}) const {
    AttentionArgs args;
    args.o = o;
    args.q = q;
    args.k_cache = k.view();
    args.v_cache = v.view();
    args.pages = pages.tables();
    args.num_heads = num_heads;
    args.num_kv_heads = num_kv_heads;
    args.head_dim = head_dim;
    args.scale = 1.0F / std::sqrt(static_cast<float>(head_dim));
    args.selection = selection;
    return args;
  }

  /// One row in double precision over the given positions.
  std::vector<double> expected(const float* q, std::int32_t slot,
                               const std::vector<std::int32_t>& positions) const {
    std::vector<double> out;
    for (std::int32_t h = 0; h < num_heads; ++h) {
      const std::int64_t column = std::int64_t{h / (num_heads / num_kv_heads)} * head_dim;
      std::vector<double> weight;
      for (const std::int32_t p : positions) {
        double score = 0.0;
        for (std::int64_t i = 0; i < head_dim; ++i) {
          score += double{q[h * head_dim + i]} * double{k.at(pages.row_of(slot, p), column + i)};
        }
        weight.push_back(score / std::sqrt(static_cast<double>(head_dim)));
      }
      const double largest = *std::max_element(weight.begin(), weight.end());
      double sum = 0.0;
      for (double& w : weight) sum += w = std::exp(w - largest);
      for (std::int64_t i = 0; i < head_dim; ++i) {
        double value = 0.0;
        for (std::size_t j = 0; j < positions.size(); ++j) {
          value += weight[j] / sum * double{v.at(pages.row_of(slot, positions[j]), column + i)};
        }
        out.push_back(value);
      }
    }
    return out;
  }
};

std::vector<std::int32_t> up_to(std::int32_t position) {
  std::vector<std::int32_t> all(static_cast<std::size_t>(position) + 1);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

/// Random ascending blocks out of those closed at `position`.
std::vector<std::int32_t> random_blocks(std::int32_t position, std::mt19937& rng) {
  std::vector<std::int32_t> blocks(static_cast<std::size_t>((position + 1) / kRatio));
  std::iota(blocks.begin(), blocks.end(), 0);
  std::shuffle(blocks.begin(), blocks.end(), rng);
  blocks.resize(kTopBlocks);
  std::sort(blocks.begin(), blocks.end());
  return blocks;
}

void expect_near_row(const float* got, const std::vector<double>& expected) {
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(got[i], expected[i], 3e-6) << "column " << i;
}

TEST(KvAppend, RowsLandInTheirPagesAndNothingElseIsTouched) {
  std::mt19937 rng(11);
  for (const std::int32_t block : {16, 32, 64}) {
    ShuffledPages pages(3, 200, block, rng);
    Floats k_cache(pages.num_pages() * block, 24), v_cache(pages.num_pages() * block, 24);
    const std::vector<Segment> segments{{2, block - 1, 3}, {0, 2 * block - 2, 1}, {1, 0, 2 * block + 1}};
    const SegmentRows rows(Form::prefill, segments);
    Floats k(rows.batch().num_rows.n, 24), v(rows.batch().num_rows.n, 24);
    k.randomize(rng);
    v.randomize(rng);
    Floats expected_k = k_cache, expected_v = v_cache;
    std::int64_t r = 0;
    for (const Segment& s : segments) {
      for (std::int32_t i = 0; i < s.num_rows; ++i, ++r) {
        const std::int64_t to = pages.row_of(s.slot, s.first_position + i);
        std::copy_n(k.row(r), 24, expected_k.row(to));
        std::copy_n(v.row(r), 24, expected_v.row(to));
      }
    }
    ThreadsStream stream(3);
    ASSERT_TRUE(cpu::kv_append(stream, rows.batch(),
                               {k_cache.view(), v_cache.view(), k.view(), v.view(), pages.tables()})
                    .ok());
    EXPECT_TRUE(same_bits(k_cache, expected_k));
    EXPECT_TRUE(same_bits(v_cache, expected_v));
  }
}

TEST(PositionList, TheBoundIsTheLastLengthThatKeepsEveryPosition) {
  std::vector<std::int32_t> blocks(kTopBlocks);
  std::iota(blocks.begin(), blocks.end(), 1);  // block 0 is left out
  const Selection selection{{blocks.data(), {1}, {kTopBlocks}, {kTopBlocks}}, kRatio, kTopBlocks};
  for (const std::int32_t n : {1, 3, 4, kBound - 1, kBound}) {
    const PositionList list(selection, 0, n - 1);
    EXPECT_TRUE(list.is_identity()) << n;
    EXPECT_EQ(list.size(), n);
  }
  for (std::int32_t tail = 0; tail < kRatio; ++tail) {
    const std::int32_t n = kBound + 1 + tail;
    const PositionList list(selection, 0, n - 1);
    EXPECT_FALSE(list.is_identity());
    ASSERT_EQ(list.size(), kRatio * kTopBlocks + tail);
    for (std::int32_t i = 0; i < list.size(); ++i) EXPECT_EQ(list.position(i), kRatio + i) << "n " << n;
  }
}

TEST(Attention, MatchesDoublePrecisionForEveryShapeOfModel) {
  std::mt19937 rng(12);
  struct Shape {
    std::int32_t heads, kv_heads, dim, block;
  };
  for (const Shape& s :
       {Shape{4, 2, 16, 16}, {4, 2, 64, 32}, {24, 2, 256, 64}, {9, 3, 64, 16}, {2, 2, 20, 16}}) {
    const std::int32_t length = 3 * s.block + 2;
    Caches caches({length, length}, s.heads, s.kv_heads, s.dim, s.block, rng);
    for (const Form form : {Form::prefill, Form::decode}) {
      const SegmentRows rows(form, {{1, 0, length}});
      Floats q(length, s.heads * s.dim), o(length, s.heads * s.dim);
      q.randomize(rng);
      ThreadsStream stream(2);
      ASSERT_TRUE(cpu::attention(stream, rows.batch(), caches.args(o.view(), q.view())).ok());
      for (const std::int32_t p :
           {0, 1, s.block - 1, s.block, s.block + 1, 2 * s.block - 1, 2 * s.block, length - 1}) {
        expect_near_row(o.row(p), caches.expected(q.row(p), 1, up_to(p)));
      }
    }
  }
}

TEST(Attention, TheFirstPositionReturnsItsOwnValue) {
  std::mt19937 rng(13);
  Caches caches({1}, 4, 2, 16, 16, rng);
  const SegmentRows rows(Form::decode, {{0, 0, 1}});
  Floats q(1, 64), o(1, 64);
  q.randomize(rng, 50.0F);
  ThreadsStream stream;
  ASSERT_TRUE(cpu::attention(stream, rows.batch(), caches.args(o.view(), q.view())).ok());
  for (std::int64_t h = 0; h < 4; ++h) {
    EXPECT_TRUE(same_bits(o.row(0) + h * 16, caches.v.row(caches.pages.row_of(0, 0)) + h / 2 * 16, 16));
  }
}

TEST(Attention, ASelectedRowReadsItsBlocksAndItsTailOnly) {
  std::mt19937 rng(14);
  Caches caches({400}, 4, 2, 64, 16, rng);
  for (const std::int32_t n : {kBound + 1, kBound + 2, kBound + 3, kBound + 4, 255, 256, 257, 400}) {
    const std::int32_t position = n - 1;
    const std::vector<std::int32_t> blocks = random_blocks(position, rng);
    std::vector<std::int32_t> positions;
    for (const std::int32_t b : blocks)
      for (std::int32_t i = 0; i < kRatio; ++i) positions.push_back(b * kRatio + i);
    for (std::int32_t p = n / kRatio * kRatio; p < n; ++p) positions.push_back(p);
    const SegmentRows rows(Form::decode, {{0, position, 1}});
    const Selection selection{{blocks.data(), {1}, {kTopBlocks}, {kTopBlocks}}, kRatio, kTopBlocks};
    Floats q(1, 256), o(1, 256);
    q.randomize(rng);
    const std::vector<double> expected = caches.expected(q.row(0), 0, positions);
    const Floats k = caches.k, v = caches.v;
    for (std::int32_t p = 0; p < 400; ++p) {
      if (std::find(positions.begin(), positions.end(), p) != positions.end()) continue;
      std::fill_n(caches.k.row(caches.pages.row_of(0, p)), caches.k.cols, kNaN);
      std::fill_n(caches.v.row(caches.pages.row_of(0, p)), caches.v.cols, kNaN);
    }
    ThreadsStream stream;
    ASSERT_TRUE(cpu::attention(stream, rows.batch(), caches.args(o.view(), q.view(), selection)).ok());
    expect_near_row(o.row(0), expected);
    caches.k = k;
    caches.v = v;
  }
}

/// The same keys and values, once as a whole short sequence and once as the selected positions of a longer
/// one.
TEST(Attention, AnExplicitListGivesTheBitsOfTheIdentityListWithTheSameEntries) {
  std::mt19937 rng(15);
  for (const std::int32_t tail : {0, 1, 2, 3}) {
    const std::int32_t entries = kRatio * kTopBlocks + tail, position = 4 * 80 + tail - 1;
    Caches caches({entries, position + 1}, 4, 2, 64, 32, rng);
    const std::vector<std::int32_t> blocks = random_blocks(position, rng);
    const Selection selection{{blocks.data(), {1}, {kTopBlocks}, {kTopBlocks}}, kRatio, kTopBlocks};
    const PositionList list(selection, 0, position);
    ASSERT_EQ(list.size(), entries);
    for (std::int32_t i = 0; i < entries; ++i) {
      const std::int64_t from = caches.pages.row_of(0, i), to = caches.pages.row_of(1, list.position(i));
      std::copy_n(caches.k.row(from), caches.k.cols, caches.k.row(to));
      std::copy_n(caches.v.row(from), caches.v.cols, caches.v.row(to));
    }
    Floats q(1, 256), dense(1, 256), listed(1, 256);
    q.randomize(rng);
    ThreadsStream stream;
    const SegmentRows short_row(Form::prefill, {{0, entries - 1, 1}}),
        long_row(Form::decode, {{1, position, 1}});
    const std::vector<std::int32_t> unread(kTopBlocks, -1);
    const Selection inert{{unread.data(), {1}, {kTopBlocks}, {kTopBlocks}}, kRatio, kTopBlocks};
    ASSERT_TRUE(cpu::attention(stream, short_row.batch(), caches.args(dense.view(), q.view(), inert)).ok());
    ASSERT_TRUE(
        cpu::attention(stream, long_row.batch(), caches.args(listed.view(), q.view(), selection)).ok());
    EXPECT_TRUE(same_bits(dense, listed)) << "tail " << tail;
  }
}

struct Mixed {
  std::mt19937 rng{16};
  std::vector<Segment> segments{{2, 0, 70}, {0, 100, 80}, {1, 300, 1}, {3, 120, 20}};
  Caches caches{{180, 301, 70, 140}, 4, 2, 64, 16, rng};
  std::int64_t num_rows = 0;
  std::vector<std::int32_t> slot, position, blocks;

  Mixed() {
    for (const Segment& s : segments) {
      for (std::int32_t i = 0; i < s.num_rows; ++i) {
        slot.push_back(s.slot);
        position.push_back(s.first_position + i);
      }
    }
    num_rows = static_cast<std::int64_t>(slot.size());
    for (const std::int32_t p : position) {
      const std::vector<std::int32_t> of_row =
          p + 1 > kBound ? random_blocks(p, rng) : std::vector<std::int32_t>(kTopBlocks, -1);
      blocks.insert(blocks.end(), of_row.begin(), of_row.end());
    }
  }
  Selection selection(std::int64_t first, std::int64_t n) const {
    return {{blocks.data() + first * kTopBlocks, {n}, {kTopBlocks}, {kTopBlocks}}, kRatio, kTopBlocks};
  }
};

TEST(Attention, ARowHasTheSameBitsAloneAndInAnyBatchFormAndNumberOfWorkers) {
  Mixed m;
  Floats q(m.num_rows, 256), whole(m.num_rows, 256);
  q.randomize(m.rng);
  const SegmentRows rows(Form::prefill, m.segments);
  ThreadsStream one(1);
  ASSERT_TRUE(
      cpu::attention(one, rows.batch(), m.caches.args(whole.view(), q.view(), m.selection(0, m.num_rows)))
          .ok());
  for (const int workers : {2, 3}) {
    ThreadsStream stream(workers);
    Floats again(m.num_rows, 256);
    ASSERT_TRUE(cpu::attention(stream, rows.batch(),
                               m.caches.args(again.view(), q.view(), m.selection(0, m.num_rows)))
                    .ok());
    EXPECT_TRUE(same_bits(again, whole)) << workers << " workers";
  }
  Floats in_place = q;
  ASSERT_TRUE(cpu::attention(one, rows.batch(),
                             m.caches.args(in_place.view(), in_place.view(), m.selection(0, m.num_rows)))
                  .ok());
  for (std::int64_t r = 0; r < m.num_rows; ++r) {
    EXPECT_TRUE(same_bits(in_place.row(r), whole.row(r), 256));
    const auto i = static_cast<std::size_t>(r);
    for (const Form form : {Form::prefill, Form::decode}) {
      const SegmentRows alone(form, {{m.slot[i], m.position[i], 1}});
      Floats o(1, 256);
      ASSERT_TRUE(
          cpu::attention(one, alone.batch(), m.caches.args(o.view(), q.part(r, 1), m.selection(r, 1))).ok());
      ASSERT_TRUE(same_bits(o.row(0), whole.row(r), 256)) << "row " << r;
    }
  }
}

TEST(HeadGate, MultipliesByTheSigmoidOfInterleavedGates) {
  std::mt19937 rng(17);
  for (const std::int64_t dim : {16, 64, 20}) {
    Floats projected(5, 3 * 2 * dim), y(5, 3 * dim);  // q and gate interleaved per head
    projected.randomize(rng, 20.0F);
    y.randomize(rng);
    const Floats before = y;
    HeadGateArgs args;
    args.y = y.view();
    args.gate = projected.view().columns({dim}, {3 * 2 * dim - dim});
    args.num_heads = 3;
    args.head_dim = static_cast<std::int32_t>(dim);
    args.gate_stride = static_cast<std::int32_t>(2 * dim);
    ThreadsStream stream(2);
    ASSERT_TRUE(cpu::head_gate(stream, args).ok());
    for (std::int64_t r = 0; r < 5; ++r) {
      for (std::int64_t c = 0; c < 3 * dim; ++c) {
        const double gate = projected.at(r, c / dim * 2 * dim + dim + c % dim);
        const double expected = double{before.at(r, c)} / (1.0 + std::exp(-gate));
        EXPECT_NEAR(y.at(r, c), expected, 1e-6 * std::abs(expected) + 1e-37);
      }
    }
  }
}

}  // namespace
}  // namespace kernels::testing
