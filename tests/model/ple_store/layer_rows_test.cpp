#include "model/ple_store/layer_rows.h"

#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <set>

#include "gpu/device.h"
#include "kernels/ops.h"
#include "model/arch/ple_constants.h"
#include "model/checkpoint/widen.h"

namespace model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::int64_t kDim = 8;

/// Gives every number of a row the row's id, and fails the rows that it is told to.
class FakeReader final : public gpu::FileReader {
 public:
  void begin(gpu::ReadBatch& batch) override {
    ++batches;
    batch.failures.clear();
    for (std::size_t i = 0; i < batch.reads.size(); ++i) {
      const gpu::FileRead& read = batch.reads[i];
      const std::int64_t row = read.offset / read.size.n;
      rows.push_back(row);
      if (read.drill || failing.contains(row)) {
        batch.failures.push_back({i, "byte " + std::to_string(read.offset)});
        continue;
      }
      for (std::int64_t c = 0; c < kDim; ++c) {
        const auto value = static_cast<float>(row);
        std::memcpy(read.to + c * std::int64_t{sizeof value}, &value, sizeof value);
      }
    }
  }
  void wait(gpu::ReadBatch&, const std::function<void()>& progressed) override {
    ++waits;
    progressed();
  }
  const std::string& description() const override { return text; }

  std::set<std::int64_t> failing;
  std::vector<std::int64_t> rows;
  int batches = 0, waits = 0;
  std::string text = "fake";
};

PleConfig ple_config() {
  PleConfig config;
  config.layers = {1};
  config.ngram_size = 3;
  config.heads_per_ngram = 2;
  config.embed_dim = 4 * kDim;
  config.vocab_size_base = 1000;
  config.eos = 9;
  return config;
}

struct Rig {
  explicit Rig(std::int64_t slots) {
    const PleConstants constants = derive_ple_constants(config, 256, 0);
    weights.multipliers = constants.multipliers;
    weights.sizes = constants.sizes;
    weights.offsets = constants.offsets;
    StoredTable table;
    table.type = gpu::DType::f32;
    table.rows = constants.table_rows;
    table.dim = kDim;
    table.files = {"one"};
    table.parts = {{0, table.rows, 0, 0}};
    weights.stored = table;
    rows = std::make_unique<LayerRows>(1, config, weights, reader, std::vector<std::int32_t>{0}, slots, 64,
                                       gpu::DType::f32);
  }

  /// Rows of a step: of sequences at positions, one feed each.
  gpu::Status decide(std::vector<std::pair<std::vector<std::int32_t>*, std::int32_t>> feeds,
                     std::optional<std::size_t> drill = std::nullopt) {
    step.rows.clear();
    for (std::size_t i = 0; i < feeds.size(); ++i)
      step.rows.push_back({feeds[i].first->data(), feeds[i].second, i});
    step.num_prefill = 0;
    return rows->decide(step, drill);
  }
  /// What the layer gets, and its row ids after the formula.
  std::vector<float> gather() {
    std::vector<float> y(step.rows.size() * 4 * kDim, -1.0F);
    StepContext context{*stream, *ops, arena, gpu::DType::f32, {}, {}, {}, {}, 0};
    context.batch.form = kernels::Form::decode;
    const gpu::Elements width{4 * kDim};
    const gpu::Rows count{std::ssize(step.rows)};
    EXPECT_TRUE(
        rows->gather(context, {reinterpret_cast<std::byte*>(y.data()), gpu::DType::f32, count, width, width})
            .ok());
    return y;
  }
  std::vector<std::int64_t> ids_at(const std::vector<std::int32_t>& ids, std::int32_t position) const {
    std::vector<std::int64_t> out(4);
    kernels::ngram_rows_at(
        {weights.multipliers.data(), weights.sizes.data(), weights.offsets.data(), 3, 2, 9}, ids.data(),
        position, out.data());
    return out;
  }
  std::vector<float> expected(const std::vector<std::vector<std::int64_t>>& of_rows) const {
    std::vector<float> y;
    for (const auto& ids : of_rows)
      for (const std::int64_t id : ids) y.insert(y.end(), kDim, static_cast<float>(id));
    return y;
  }

  PleConfig config = ple_config();
  PleWeights weights;
  FakeReader reader;
  std::unique_ptr<LayerRows> rows;
  StepRows step;
  std::unique_ptr<gpu::Device> device = gpu::make_host_device(1);
  std::unique_ptr<gpu::Stream> stream = *device->create_stream();
  std::unique_ptr<kernels::Ops> ops = kernels::make_cpu_ops();
  gpu::Arena arena;
};

TEST(LayerRows, RowsAreReadOnceAndGatheredHeadByHead) {
  Rig rig(64);
  std::vector<std::int32_t> a = {1, 2, 3, 9, 5}, b = {7, 8};
  ASSERT_TRUE(rig.decide({{&a, 0}, {&a, 1}, {&b, 1}}).ok());
  EXPECT_EQ(rig.gather(), rig.expected({rig.ids_at(a, 0), rig.ids_at(a, 1), rig.ids_at(b, 1)}));
  EXPECT_EQ(rig.rows->counts().misses, 12U);
  EXPECT_EQ(rig.rows->counts().pinned, 12);
  EXPECT_EQ(rig.stream->progress(), 1U);  // of the reads that it waited for
  rig.rows->release();
  EXPECT_EQ(rig.rows->cache().num_pinned(), 0);

  ASSERT_TRUE(rig.decide({{&a, 1}, {&a, 4}}).ok());
  EXPECT_EQ(rig.gather(), rig.expected({rig.ids_at(a, 1), rig.ids_at(a, 4)}));
  EXPECT_EQ(rig.rows->counts().hits, 4U);
  EXPECT_EQ(rig.rows->counts().misses, 4U);
  EXPECT_EQ(rig.reader.rows.size(), 16U);
  rig.rows->release();
}

TEST(LayerRows, PositionsThatAreFedAgainGiveTheRowsOfTheirNewIds) {
  Rig rig(64);
  std::vector<std::int32_t> ids = {1, 2, 3, 4};
  ASSERT_TRUE(rig.decide({{&ids, 2}, {&ids, 3}}).ok());
  rig.rows->release();
  ids[2] = 100;
  ids[3] = 101;
  ASSERT_TRUE(rig.decide({{&ids, 2}, {&ids, 3}}).ok());
  EXPECT_EQ(rig.gather(), rig.expected({rig.ids_at({1, 2, 100}, 2), rig.ids_at({1, 2, 100, 101}, 3)}));
  rig.rows->release();
}

TEST(LayerRows, AFailedReadFailsTheFeedsThatWantedTheRowAndNobodyElse) {
  Rig rig(64);
  std::vector<std::int32_t> a = {1, 2}, b = {3, 4}, c = {1, 2};  // c wants what a wants
  const auto wanted = rig.ids_at(a, 1);
  rig.reader.failing = {wanted[2]};
  ASSERT_TRUE(rig.decide({{&a, 1}, {&b, 1}, {&c, 1}}).ok());
  auto y = rig.expected({wanted, rig.ids_at(b, 1), wanted});
  for (const std::size_t row : {0, 2}) {
    const auto head = y.begin() + static_cast<std::ptrdiff_t>((row * 4 + 2) * kDim);
    std::fill(head, head + kDim, 0.0F);
  }
  EXPECT_EQ(rig.gather(), y);
  ASSERT_THAT(rig.rows->failures(), SizeIs(2));
  EXPECT_EQ(rig.rows->failures()[0].feed, 0U);
  EXPECT_EQ(rig.rows->failures()[1].feed, 2U);
  EXPECT_EQ(rig.rows->failures()[0].what, "layer 1, n-gram row " + std::to_string(wanted[2]) + ": byte " +
                                              std::to_string(wanted[2] * kDim * 4));
  rig.rows->release();
  EXPECT_EQ(rig.rows->cache().num_pinned(), 0);

  // Its reservation is gone: the next step reads it anew, and nothing but it.
  rig.reader.failing.clear();
  rig.reader.rows.clear();
  ASSERT_TRUE(rig.decide({{&a, 1}, {&b, 1}}).ok());
  EXPECT_EQ(rig.gather(), rig.expected({wanted, rig.ids_at(b, 1)}));
  EXPECT_THAT(rig.reader.rows, ElementsAre(wanted[2]));
  EXPECT_THAT(rig.rows->failures(), IsEmpty());
  rig.rows->release();
}

TEST(LayerRows, ADrilledFeedFailsThoughItsRowsAreThere) {
  Rig rig(64);
  std::vector<std::int32_t> a = {1, 2}, b = {3, 4};
  ASSERT_TRUE(rig.decide({{&a, 1}, {&b, 1}}).ok());
  rig.rows->release();
  ASSERT_TRUE(rig.decide({{&a, 1}, {&b, 1}}, 1).ok());
  rig.rows->release();
  ASSERT_THAT(rig.rows->failures(), SizeIs(1));
  EXPECT_EQ(rig.rows->failures()[0].feed, 1U);
  ASSERT_TRUE(rig.decide({{&a, 1}, {&b, 1}}).ok());
  EXPECT_EQ(rig.rows->counts().misses, 1U);
  EXPECT_EQ(rig.gather(), rig.expected({rig.ids_at(a, 1), rig.ids_at(b, 1)}));
  rig.rows->release();
}

TEST(LayerRows, AStepThatNobodyGatheredStillWaitsForItsReads) {
  Rig rig(64);
  std::vector<std::int32_t> a = {1, 2};
  ASSERT_TRUE(rig.decide({{&a, 1}}).ok());
  rig.rows->release();
  EXPECT_EQ(rig.reader.waits, 1);
  rig.rows->release();
  EXPECT_EQ(rig.reader.waits, 1);
}

TEST(LayerRows, MoreRowsThanSlotsAreRefusedAndNothingIsHeld) {
  Rig rig(5);
  std::vector<std::int32_t> a = {1, 2, 3};
  const auto refused = rig.decide({{&a, 1}, {&a, 2}});
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().what,
              HasSubstr("layer 1: 2 tokens read more n-gram rows than the 5 of --ple-cache-slots"));
  EXPECT_EQ(rig.reader.batches, 0);
  EXPECT_EQ(rig.rows->cache().num_pinned(), 0);
  EXPECT_EQ(rig.rows->cache().num_rows(), 0);
  ASSERT_TRUE(rig.decide({{&a, 1}}).ok());
  EXPECT_EQ(rig.gather(), rig.expected({rig.ids_at(a, 1)}));
  rig.rows->release();
}

TEST(LayerRows, ASmallCacheGivesTheSameRowsAsALargeOne) {
  Rig small(16), large(4000);
  std::mt19937 random(4);
  for (int step = 0; step < 300; ++step) {
    std::vector<std::vector<std::int32_t>> sequences(4);
    for (auto& ids : sequences) {
      ids.resize(1 + random() % 4);
      for (auto& id : ids) id = static_cast<std::int32_t>(random() % 12);  // 9 is eos
    }
    std::vector<std::pair<std::vector<std::int32_t>*, std::int32_t>> feeds;
    std::vector<std::vector<std::int64_t>> expected;
    for (auto& ids : sequences) {
      feeds.emplace_back(&ids, static_cast<std::int32_t>(ids.size()) - 1);
      expected.push_back(small.ids_at(ids, feeds.back().second));
    }
    for (Rig* rig : {&small, &large}) {
      ASSERT_TRUE(rig->decide(feeds).ok());
      ASSERT_EQ(rig->gather(), rig->expected(expected)) << "step " << step;
      rig->rows->release();
    }
  }
  EXPECT_GT(small.reader.rows.size(), large.reader.rows.size());
}

TEST(StoredTable, FindsARowInItsPart) {
  StoredTable table;
  table.type = gpu::DType::bf16;
  table.dim = 10;
  table.rows = 30;
  table.files = {"a", "b"};
  table.parts = {{0, 12, 1, 100}, {12, 12, 0, 7}, {24, 6, 1, 1000}};
  const auto at = [&](std::int64_t row) {
    const auto place = table.place_of(row);
    return std::pair(place.file, place.offset);
  };
  EXPECT_EQ(at(0), std::pair(1, std::int64_t{100}));
  EXPECT_EQ(at(11), std::pair(1, std::int64_t{320}));
  EXPECT_EQ(at(12), std::pair(0, std::int64_t{7}));
  EXPECT_EQ(at(23), std::pair(0, std::int64_t{227}));
  EXPECT_EQ(at(29), std::pair(1, std::int64_t{1100}));
}

TEST(RowValues, OfEveryTypeAreWhatALoadedTableHolds) {
  StoredTable table;
  table.dim = 256;
  std::vector<std::byte> bytes(1024);
  std::mt19937 random(8);
  for (auto& byte : bytes) byte = static_cast<std::byte>(random());
  const auto row = [&](gpu::DType from, gpu::DType to) {
    table.type = from;
    const RowValues values(table, to);
    std::vector<std::byte> out(static_cast<std::size_t>(values.row_bytes().n));
    values.convert(bytes.data(), out.data());
    return out;
  };
  for (const gpu::DType from : {gpu::DType::f32, gpu::DType::f16, gpu::DType::bf16})
    for (const gpu::DType to : {gpu::DType::f32, gpu::DType::bf16})
      EXPECT_EQ(row(from, to),
                from == to ? std::vector<std::byte>(bytes.begin(), bytes.begin() + 256 * gpu::size_of(to))
                           : converted(bytes.data(), from, 256, to))
          << to_string(from) << " to " << to_string(to);
}

/// value = round_bf16(float(e4m3) * scale), with the scale of the published files (model-spec 5.5).
TEST(RowValues, OfFp8AreScaledAndRoundedToBf16) {
  const auto values = scaled_e4m3(0.00019931793212890625F);
  const auto value = [&](unsigned byte) {
    return std::bit_cast<float>(std::uint32_t{values[byte].bits} << 16);
  };
  const float scale = 0.00019931793212890625F;
  EXPECT_EQ(value(0x38), scale);  // 1
  EXPECT_EQ(value(0xB8), -scale);
  EXPECT_EQ(value(0x40), 2 * scale);
  EXPECT_EQ(value(0x00), 0.0F);
  EXPECT_EQ(value(0x01), scale / 512);  // the least subnormal
  EXPECT_EQ(value(0x08), scale / 64);   // the least normal number
  EXPECT_EQ(values[0x7E].bits, narrow_to_bf16(448.0F * scale).bits);
  EXPECT_EQ(values[0x3B].bits, narrow_to_bf16(1.375F * scale).bits);
  EXPECT_TRUE(std::isnan(value(0x7F)) && std::isnan(value(0xFF)));
}

}  // namespace
}  // namespace model
