#include "kernels/page_rows.h"
#include "tests/kernels/cuda/twin_pages.h"

namespace kernels::testing {
namespace {

constexpr std::int32_t kRatio = 4, kTopBlocks = 32, kTile = 64;
constexpr std::int32_t kBound = kRatio * kTopBlocks + kRatio - 1;  // longest list that no selection shortens

struct Heads {
  std::int32_t heads, kv_heads, dim;
  std::int32_t width() const { return heads * dim; }
};

/// Keys and values of several sequences in shuffled pages. Slot s holds lengths[s] positions; the rest of
/// the pages is NaN.
struct Caches {
  Heads shape;
  gpu::DType dtype;
  TwinPages pages;
  Twin k, v;

  Caches(gpu::DType type, const std::vector<std::int32_t>& lengths, Heads heads, std::int32_t block,
         std::mt19937& rng, std::int64_t extra_pitch = 16)
      : shape(heads),
        dtype(type),
        pages(static_cast<std::int32_t>(lengths.size()), *std::max_element(lengths.begin(), lengths.end()),
              block, rng),
        k(filled(lengths, extra_pitch, rng)),
        v(filled(lengths, extra_pitch, rng)) {}

  AttentionArgs args(bool device, gpu::Matrix o, gpu::ConstMatrix q, const Selection& selection = {}) {
    return {o,
            q,
            k.at(device),
            v.at(device),
            pages.tables(device),
            shape.heads,
            shape.kv_heads,
            shape.dim,
            1.0F / std::sqrt(static_cast<float>(shape.dim)),
            selection};
  }

 private:
  Twin filled(const std::vector<std::int32_t>& lengths, std::int64_t extra_pitch, std::mt19937& rng) {
    OpMatrix cache(dtype, pages.num_rows(), shape.kv_heads * shape.dim, extra_pitch);
    std::normal_distribution<double> normal;
    for (std::size_t slot = 0; slot < lengths.size(); ++slot) {
      for (std::int32_t p = 0; p < lengths[slot]; ++p) {
        const std::int64_t row = pages.row_of(static_cast<std::int32_t>(slot), p);
        for (std::int64_t c = 0; c < cache.cols(); ++c) cache.set(row, c, normal(rng));
      }
    }
    return Twin(cache);
  }
};

/// Blocks of rows, on both sides.
struct TwinBlocks {
  std::vector<std::int32_t> host;
  DeviceVector<std::int32_t> device;

  explicit TwinBlocks(std::vector<std::int32_t> blocks) : host(blocks), device(std::move(blocks)) {}
  Selection of(bool on_device, std::int64_t first, std::int64_t n) {
    const std::int32_t* base = on_device ? device.view().base : host.data();
    return {{base + first * kTopBlocks, {n}, {kTopBlocks}, {kTopBlocks}}, kRatio, kTopBlocks};
  }
};

/// Random ascending blocks out of those closed at `position`; below the bound none that may be read.
std::vector<std::int32_t> random_blocks(std::int32_t position, std::mt19937& rng) {
  if (position + 1 <= kBound) return std::vector<std::int32_t>(kTopBlocks, -1);
  std::vector<std::int32_t> blocks(static_cast<std::size_t>((position + 1) / kRatio));
  std::iota(blocks.begin(), blocks.end(), 0);
  std::shuffle(blocks.begin(), blocks.end(), rng);
  blocks.resize(kTopBlocks);
  std::sort(blocks.begin(), blocks.end());
  return blocks;
}

struct ShapeOfModel {
  Heads heads;
  std::int32_t block;
  std::int64_t extra_pitch;
};
const ShapeOfModel kShapes[] = {
    {{4, 2, 16}, 16, 16},  {{4, 2, 16}, 64, kOddPitch}, {{9, 3, 64}, 16, 16},          {{2, 2, 20}, 16, 16},
    {{8, 2, 128}, 32, 16}, {{24, 2, 256}, 64, 16},      {{24, 2, 256}, 16, kOddPitch}, {{16, 1, 32}, 64, 16},
    {{17, 1, 8}, 16, 16},  {{3, 3, 7}, 32, 16},         {{32, 8, 128}, 16, 16},
};

/// The same rows once alone, their lists spread over thread blocks, and again and again until there are
/// enough of them for thread blocks to walk whole lists.
TEST(CudaAttention, AgreesWithTheCpuForEveryShapeOfModelAroundTilesAndPages) {
  REQUIRE_DEVICE();
  std::mt19937 rng(12);
  for (const gpu::DType dtype : kActivationTypes) {
    for (const ShapeOfModel& s : kShapes) {
      if (TestDevice::get()->small() && s.heads.dim == 256 && dtype == gpu::DType::f32) continue;
      const std::int32_t length = 2 * kTile + 2;
      const std::vector<Segment> edges = {
          {1, 0, 2}, {1, kTile - 2, 4}, {0, 2 * kTile - 2, 3}, {1, length - 1, 1}};
      Caches caches(dtype, {length, length}, s.heads, s.block, rng, s.extra_pitch);
      const TwinBatch few(Form::prefill, edges);
      const std::int64_t n = few.num_rows(), width = s.heads.width();
      const std::int64_t times = 264 / (n * s.heads.kv_heads) + 1;
      Twin q = Twin::random(dtype, n, width, rng), o(dtype, n, width);
      on_both([&](Ops& ops, gpu::Stream& stream, bool device) {
        return ops.attention(stream, few.at(device), caches.args(device, o.at(device), q.at(device)));
      });
      o.expect_near("attention");

      std::vector<Segment> repeated;
      OpMatrix q_again(dtype, times * n, width);
      for (std::int64_t i = 0; i < times; ++i) {
        repeated.insert(repeated.end(), edges.begin(), edges.end());
        for (std::int64_t r = 0; r < n; ++r)
          for (std::int64_t c = 0; c < width; ++c) q_again.set(i * n + r, c, q.from_host().at(r, c));
      }
      Twin many_q(q_again), many_o(dtype, times * n, width);
      for (const Form form : {Form::prefill, Form::decode}) {
        const bool large = s.heads.dim > 64 && (dtype == gpu::DType::f32 || form == Form::decode);
        if (TestDevice::get()->small() && large) continue;
        const TwinBatch many(form, repeated);
        on_device([&](Ops& ops, gpu::Stream& stream) {
          return ops.attention(stream, many.at(true), caches.args(true, many_o.device(), many_q.device()));
        });
        for (std::int64_t i = 0; i < times; ++i)
          EXPECT_TRUE(same_rows(many_o.from_device(), i * n, o.from_device(), 0, n)) << "walked";
        EXPECT_TRUE(many_o.from_device().padding_untouched());
      }
      ASSERT_FALSE(::testing::Test::HasFailure())
          << s.heads.heads << " heads, " << s.heads.kv_heads << " kv heads of " << s.heads.dim;
    }
  }
}

TEST(CudaAttention, TheFirstPositionReturnsItsOwnValue) {
  REQUIRE_DEVICE();
  std::mt19937 rng(13);
  for (const gpu::DType dtype : kActivationTypes) {
    Caches caches(dtype, {1}, {4, 2, 16}, 16, rng);
    const TwinBatch batch(Form::decode, {{0, 0, 1}});
    Twin q = Twin::random(dtype, 1, 64, rng, 50.0), o(dtype, 1, 64);
    on_device([&](Ops& ops, gpu::Stream& stream) {
      return ops.attention(stream, batch.at(true), caches.args(true, o.device(), q.device()));
    });
    const std::int64_t row = caches.pages.row_of(0, 0);
    for (std::int64_t c = 0; c < 64; ++c)
      EXPECT_EQ(o.from_device().at(0, c), caches.v.from_host().at(row, c / 32 * 16 + c % 16));
  }
}

TEST(CudaAttention, ASelectedRowReadsItsBlocksAndItsTailOnly) {
  REQUIRE_DEVICE();
  std::mt19937 rng(14);
  const std::int32_t length = 400;
  for (const gpu::DType dtype : kActivationTypes) {
    for (const std::int32_t n :
         {kBound - 1, kBound, kBound + 1, kBound + 2, kBound + 3, kBound + 4, 257, length}) {
      const std::int32_t position = n - 1;
      Caches caches(dtype, {length}, {4, 2, 64}, 16, rng);
      TwinBlocks blocks(random_blocks(position, rng));
      const PositionList list(blocks.of(false, 0, 1), 0, position);
      std::vector<bool> listed(length, false);
      for (std::int32_t i = 0; i < list.size(); ++i)
        listed[static_cast<std::size_t>(list.position(i))] = true;
      OpMatrix k = caches.k.from_device(), v = caches.v.from_device();
      for (std::int32_t p = 0; p < length; ++p) {
        for (std::int64_t c = 0; c < k.cols() && !listed[static_cast<std::size_t>(p)]; ++c) {
          k.set(caches.pages.row_of(0, p), c, kNaN);
          v.set(caches.pages.row_of(0, p), c, kNaN);
        }
      }
      caches.k = Twin(k);
      caches.v = Twin(v);
      const TwinBatch batch(n % 2 == 0 ? Form::decode : Form::prefill, {{0, position, 1}});
      Twin q = Twin::random(dtype, 1, 256, rng), o(dtype, 1, 256);
      on_both([&](Ops& ops, gpu::Stream& stream, bool device) {
        return ops.attention(stream, batch.at(device),
                             caches.args(device, o.at(device), q.at(device), blocks.of(device, 0, 1)));
      });
      o.expect_near("attention of a selected row");
    }
  }
}

/// The same keys and values, once as a whole short sequence and once as the selected positions of a longer
/// one.
TEST(CudaAttention, AnExplicitListGivesTheBitsOfTheIdentityListWithTheSameEntries) {
  REQUIRE_DEVICE();
  std::mt19937 rng(15);
  for (const gpu::DType dtype : kActivationTypes) {
    for (const std::int32_t tail : {0, 1, 2, 3}) {
      const std::int32_t entries = kRatio * kTopBlocks + tail, position = 4 * 80 + tail - 1;
      Caches caches(dtype, {entries, position + 1}, {4, 2, 64}, 32, rng);
      TwinBlocks blocks(random_blocks(position, rng));
      TwinBlocks unread(std::vector<std::int32_t>(kTopBlocks, -1));
      const PositionList list(blocks.of(false, 0, 1), 0, position);
      ASSERT_EQ(list.size(), entries);
      OpMatrix k = caches.k.from_device(), v = caches.v.from_device();
      for (std::int32_t i = 0; i < entries; ++i) {
        const std::int64_t from = caches.pages.row_of(0, i), to = caches.pages.row_of(1, list.position(i));
        for (std::int64_t c = 0; c < k.cols(); ++c) {
          k.set(to, c, k.at(from, c));
          v.set(to, c, v.at(from, c));
        }
      }
      caches.k = Twin(k);
      caches.v = Twin(v);
      const TwinBatch short_row(Form::prefill, {{0, entries - 1, 1}}),
          long_row(Form::decode, {{1, position, 1}});
      Twin q = Twin::random(dtype, 1, 256, rng), dense(dtype, 1, 256), listed(dtype, 1, 256);
      on_device([&](Ops& ops, gpu::Stream& stream) {
        return ops.attention(stream, short_row.at(true),
                             caches.args(true, dense.device(), q.device(), unread.of(true, 0, 1)));
      });
      on_device([&](Ops& ops, gpu::Stream& stream) {
        return ops.attention(stream, long_row.at(true),
                             caches.args(true, listed.device(), q.device(), blocks.of(true, 0, 1)));
      });
      EXPECT_TRUE(same_rows(dense.from_device(), listed.from_device())) << "tail " << tail;
    }
  }
}

/// Rows on both sides of the bound, of several slots, out of order: enough for thread blocks to walk whole
/// lists, where one row alone has its list spread over thread blocks.
struct Mixed {
  std::mt19937 rng{16};
  std::vector<Segment> segments{{2, 0, 70}, {0, 100, 80}, {1, 300, 1}, {3, 120, 20}};
  std::vector<std::int32_t> slot, position, blocks;

  Mixed() {
    for (const Segment& s : segments) {
      for (std::int32_t i = 0; i < s.num_rows; ++i) {
        slot.push_back(s.slot);
        position.push_back(s.first_position + i);
        const std::vector<std::int32_t> of_row = random_blocks(position.back(), rng);
        blocks.insert(blocks.end(), of_row.begin(), of_row.end());
      }
    }
  }
};

TEST(CudaAttention, ARowHasTheSameBitsAloneAndInAnyBatchAndForm) {
  REQUIRE_DEVICE();
  for (const gpu::DType dtype : kActivationTypes) {
    for (const Heads heads : {Heads{4, 2, 64}, {12, 2, 256}}) {
      if (TestDevice::get()->small() && heads.dim > 64 && dtype == gpu::DType::f32) continue;
      Mixed m;
      Caches caches(dtype, {180, 301, 70, 140}, heads, 16, m.rng);
      TwinBlocks blocks(m.blocks);
      const TwinBatch batch(Form::prefill, m.segments), decode(Form::decode, m.segments);
      const std::int64_t n = batch.num_rows(), width = heads.width();
      Twin q = Twin::random(dtype, n, width, m.rng), whole(dtype, n, width), as_decode(dtype, n, width);
      on_both([&](Ops& ops, gpu::Stream& stream, bool device) {
        return ops.attention(stream, batch.at(device),
                             caches.args(device, whole.at(device), q.at(device), blocks.of(device, 0, n)));
      });
      whole.expect_near("a mixed batch");
      on_device([&](Ops& ops, gpu::Stream& stream) {
        return ops.attention(stream, decode.at(true),
                             caches.args(true, as_decode.device(), q.device(), blocks.of(true, 0, n)));
      });
      EXPECT_TRUE(same_rows(as_decode.from_device(), whole.from_device()));
      const std::int64_t step = TestDevice::get()->small() ? 7 : 1;
      for (std::int64_t r = 0; r < n; r += step) {
        const auto i = static_cast<std::size_t>(r);
        const TwinBatch alone(r % 2 == 0 ? Form::prefill : Form::decode, {{m.slot[i], m.position[i], 1}});
        Twin o(dtype, 1, width);
        on_device([&](Ops& ops, gpu::Stream& stream) {
          return ops.attention(stream, alone.at(true),
                               caches.args(true, o.device(), q.part(true, r, 1), blocks.of(true, r, 1)));
        });
        ASSERT_TRUE(same_rows(o.from_device(), 0, whole.from_device(), r, 1)) << "row " << r;
      }
      on_device([&](Ops& ops, gpu::Stream& stream) {
        return ops.attention(stream, batch.at(true),
                             caches.args(true, q.device(), q.device(), blocks.of(true, 0, n)));
      });
      EXPECT_TRUE(same_rows(q.from_device(), whole.from_device())) << "in place";
    }
  }
}

TEST(CudaAttention, AgreesWithTheCpuOnLongListsAndManyRows) {
  REQUIRE_DEVICE();
  std::mt19937 rng(19);
  const bool small = TestDevice::get()->small();
  const std::int32_t length = small ? 5 * kTile + 1 : 5000, rows = small ? 2 : 300;
  const Heads heads{24, 2, 256};
  for (const gpu::DType dtype : kActivationTypes) {
    Caches caches(dtype, {length, length}, heads, 64, rng);
    for (const Form form : {Form::prefill, Form::decode}) {
      const TwinBatch batch(form, {{0, length - rows, rows}, {1, length / 2, 1}});
      const std::int64_t n = batch.num_rows(), width = heads.width();
      Twin q = Twin::random(dtype, n, width, rng, 2.0), o(dtype, n, width);
      on_both([&](Ops& ops, gpu::Stream& stream, bool device) {
        return ops.attention(stream, batch.at(device), caches.args(device, o.at(device), q.at(device)));
      });
      o.expect_near("long lists");
      for (const std::int64_t r : {std::int64_t{0}, n - 2, n - 1}) {
        const std::int32_t position = r == n - 1 ? length / 2 : length - rows + static_cast<std::int32_t>(r);
        const TwinBatch alone(Form::decode, {{r == n - 1 ? 1 : 0, position, 1}});
        Twin one(dtype, 1, width);
        on_device([&](Ops& ops, gpu::Stream& stream) {
          return ops.attention(stream, alone.at(true), caches.args(true, one.device(), q.part(true, r, 1)));
        });
        EXPECT_TRUE(same_rows(one.from_device(), 0, o.from_device(), r, 1)) << "row " << r;
      }
    }
  }
}

/// Many heads on long lists: the spread tiles of the batch do not fit in the scratch at once.
TEST(CudaAttention, TilesMadeInSeveralWavesGiveTheBitsOfOne) {
  REQUIRE_DEVICE();
  std::mt19937 rng(17);
  const Heads heads{64, 1, 256};
  // Nine tiles of 90 rows: the scratch holds five places of 6 MB, one of them for the waves before.
  const std::int32_t length = 8 * kTile + 9, rows = 90;
  Caches caches(gpu::DType::bf16, {length}, heads, 64, rng);
  const TwinBatch batch(Form::decode, {{0, length - rows, rows}});
  Twin q = Twin::random(gpu::DType::bf16, rows, heads.width(), rng);
  Twin whole(gpu::DType::bf16, rows, heads.width());
  on_device([&](Ops& ops, gpu::Stream& stream) {
    return ops.attention(stream, batch.at(true), caches.args(true, whole.device(), q.device()));
  });
  for (const std::int32_t r : {0, 45, rows - 1}) {
    const TwinBatch alone(Form::decode, {{0, length - rows + r, 1}});
    Twin o(gpu::DType::bf16, 1, heads.width());
    on_both([&](Ops& ops, gpu::Stream& stream, bool device) {
      return ops.attention(stream, alone.at(device), caches.args(device, o.at(device), q.part(device, r, 1)));
    });
    o.expect_near("a long list");
    EXPECT_TRUE(same_rows(o.from_device(), 0, whole.from_device(), r, 1)) << "row " << r;
  }
}

TEST(CudaAttention, NoRowsAreNoWorkAndAHeadThatIsTooWideIsRefusedByName) {
  REQUIRE_DEVICE();
  TestDevice& test = *TestDevice::get();
  on_device([](Ops& ops, gpu::Stream& stream) { return ops.attention(stream, {}, {}); });
  std::mt19937 rng(18);
  Caches caches(gpu::DType::bf16, {1}, {1, 1, 264}, 16, rng);
  const TwinBatch batch(Form::decode, {{0, 0, 1}});
  Twin q = Twin::random(gpu::DType::bf16, 1, 264, rng), o(gpu::DType::bf16, 1, 264);
  const auto status =
      test.ops().attention(test.stream(), batch.at(true), caches.args(true, o.device(), q.device()));
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().what, ::testing::HasSubstr("attention: bf16 heads of 264, 1 a kv head"));
  EXPECT_EQ(complaint_of_step(), "");
}

}  // namespace
}  // namespace kernels::testing
