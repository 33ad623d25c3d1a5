#include "kernels/page_rows.h"
#include "tests/kernels/cuda/twin_pages.h"

namespace kernels::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAreArray;

constexpr std::int32_t kRatio = 4;

/// The index of two sequences on both sides; ring and closed keys begin as NaN.
struct Index {
  gpu::DType dtype;
  std::int32_t ring_rows, dim, half;
  TwinPages pages;
  Twin k_norm, inv_freq, ring, closed;
  NormWeight norm_weight = NormWeight::one_plus;

  Index(gpu::DType type, std::int32_t num_ring_rows, std::int32_t block, std::int32_t key_dim, unsigned seed,
        std::int64_t extra_pitch = 16)
      : Index(type, num_ring_rows, block, key_dim, std::mt19937(seed), extra_pitch) {}
  Index(gpu::DType type, std::int32_t num_ring_rows, std::int32_t block, std::int32_t key_dim,
        std::mt19937 rng, std::int64_t extra_pitch)
      : dtype(type),
        ring_rows(num_ring_rows),
        dim(key_dim),
        half(key_dim / 4),
        pages(2, 320, block, rng),
        k_norm(Twin::random(gpu::DType::f32, 1, key_dim, rng, 0.3)),
        inv_freq(Twin::random(gpu::DType::f32, 1, key_dim / 4, rng)),
        ring(type, 2 * num_ring_rows, key_dim, extra_pitch),
        closed(type, pages.num_rows() / kRatio, key_dim, extra_pitch) {}

  gpu::Status append(Ops& ops, gpu::Stream& stream, bool device, const TwinBatch& batch,
                     gpu::ConstMatrix raw) {
    QsaIndexAppendArgs args;
    args.closed = closed.at(device);
    args.ring = ring.at(device);
    args.raw = raw;
    args.ring_rows = ring_rows;
    args.ratio = kRatio;
    args.pages = pages.tables(device);
    args.k_norm = vector_of(k_norm, device);
    args.norm_weight = norm_weight;
    args.rope = {{gpu::typed<float>(inv_freq.at(device)).base, {half}}, 1.25F};
    return ops.qsa_index_append(stream, batch.at(device), args);
  }
  /// One sequence's raw keys [cuts[0], cuts[1]), [cuts[1], cuts[2]) …, one call each.
  void append_cut(std::int32_t slot, Twin& raw, const std::vector<std::int32_t>& cuts, Form form) {
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
      const std::int32_t n = cuts[i + 1] - cuts[i];
      const TwinBatch batch(form, {{slot, cuts[i], n}});
      on_device([&](Ops& ops, gpu::Stream& stream) {
        return append(ops, stream, true, batch, raw.part(true, cuts[i], n));
      });
    }
  }
};

/// What both sides hold where anything was written, NaN where nothing was.
void expect_same_places(Twin& twin, const char* what) {
  const OpMatrix& got = twin.from_device();
  OpMatrix device = got, host = twin.from_host();
  for (std::int64_t r = 0; r < host.rows(); ++r) {
    for (std::int64_t c = 0; c < host.cols(); ++c) {
      ASSERT_EQ(std::isnan(got.at(r, c)), std::isnan(host.at(r, c))) << what << " row " << r;
      if (!std::isnan(got.at(r, c))) continue;
      device.set(r, c, 0.0);
      host.set(r, c, 0.0);
    }
  }
  const double allowed = twin.device().dtype == gpu::DType::bf16 ? kBf16Error : kF32Error;
  EXPECT_LE(relative_error(device, host), allowed) << what;
  EXPECT_TRUE(got.padding_untouched()) << what;
}
/// NaN and all.
bool same_bits(const OpMatrix& a, const OpMatrix& b) {
  OpMatrix x = a, y = b;
  return std::memcmp(x.bytes(), y.bytes(), x.num_bytes()) == 0;
}

TEST(CudaQsaIndexAppend, AgreesWithTheCpuForSeveralSegmentsThatAreLongerAndShorterThanTheRing) {
  REQUIRE_DEVICE();
  std::mt19937 rng(31);
  for (const gpu::DType dtype : kActivationTypes) {
    for (const std::int32_t block : {16, 32, 64}) {
      for (const std::int32_t dim : {20, 32, 128, 200}) {
        Index index(dtype, 8, block, dim, 31, dim == 32 ? kOddPitch : 16);
        index.norm_weight = dim == 32 ? NormWeight::plain : NormWeight::one_plus;
        const std::vector<std::vector<Segment>> calls{
            {{1, 0, 5}, {0, 0, 70}}, {{0, 70, 1}, {1, 5, 30}}, {{1, 35, 1}}, {{0, 71, 3}, {1, 36, 2}}};
        for (const auto& segments : calls) {
          const TwinBatch batch(Form::prefill, segments);
          Twin raw = Twin::random(dtype, batch.num_rows(), dim, rng, 2.0, dim == 32 ? kOddPitch : 16);
          on_both([&](Ops& ops, gpu::Stream& stream, bool device) {
            return index.append(ops, stream, device, batch, raw.at(device));
          });
          index.ring.expect_equal("ring");
          expect_same_places(index.closed, "closed keys");
        }
      }
    }
  }
}

TEST(CudaQsaIndexAppend, AnyCutIntoCallsOfEitherFormGivesTheSameBits) {
  REQUIRE_DEVICE();
  std::mt19937 rng(33);
  std::cout << "seed 33\n";
  for (const gpu::DType dtype : kActivationTypes) {
    for (int round = 0; round < 12; ++round) {
      const std::int32_t ring_rows = kRatio * (1 + round % 3);
      Index whole(dtype, ring_rows, 16, 32, 33), cut(dtype, ring_rows, 16, 32, 33);
      Twin raw = Twin::random(dtype, 101, 32, rng);
      whole.append_cut(1, raw, {0, 101}, Form::prefill);
      cut.append_cut(1, raw, random_cuts(101, 1, round % 2 == 0 ? 3 : 30, rng),
                     round % 4 == 0 ? Form::decode : Form::prefill);
      ASSERT_TRUE(same_bits(cut.closed.from_device(), whole.closed.from_device())) << "round " << round;
      ASSERT_TRUE(same_bits(cut.ring.from_device(), whole.ring.from_device())) << "round " << round;
    }
  }
}

/// Closed keys of one long sequence, queries, and a selection of `top` blocks.
struct Select {
  gpu::DType dtype;
  std::int32_t top, heads, dim;
  TwinPages pages;
  OpMatrix keys;
  std::int64_t extra_pitch;

  Select(gpu::DType type, std::int32_t top_blocks, std::int32_t num_heads, std::int32_t key_dim,
         std::int32_t num_positions, std::mt19937& rng, std::int64_t extra = 16)
      : dtype(type),
        top(top_blocks),
        heads(num_heads),
        dim(key_dim),
        pages(1, num_positions, 16, rng),
        keys(type, pages.num_rows() / kRatio, key_dim, extra),
        extra_pitch(extra) {}

  std::int64_t key_row(std::int32_t j) { return closed_row(pages.tables(false), 0, kRatio, j); }
  void set_key(std::int32_t j, double value) {
    for (std::int64_t c = 0; c < dim; ++c) keys.set(key_row(j), c, value);
  }
  /// Small whole numbers: every sum is exact, so both sides rank the same scores, and many are equal.
  void set_whole_numbers(OpMatrix& m, std::mt19937& rng) {
    for (std::int64_t r = 0; r < m.rows(); ++r)
      for (std::int64_t c = 0; c < m.cols(); ++c) m.set(r, c, static_cast<double>(rng() % 7) - 3.0);
  }

  struct Chosen {
    std::vector<std::int32_t> device, host;
  };
  Chosen run(Form form, const std::vector<Segment>& segments, const OpMatrix& queries, bool with_cpu = true) {
    const TwinBatch batch(form, segments);
    const std::int64_t n = batch.num_rows();
    Twin q(queries), closed(keys);
    Twin scores(gpu::DType::f32, n, (batch.at(false).max_position + 1) / kRatio);
    std::vector<std::int32_t> host(static_cast<std::size_t>(n * top), -1);
    DeviceVector<std::int32_t> device(host);
    const auto select = [&](Ops& ops, gpu::Stream& stream, bool on_device) {
      return ops.qsa_select(stream, batch.at(on_device),
                            {{on_device ? device.view().base : host.data(), {n}, {top}, {top}},
                             scores.at(on_device),
                             q.at(on_device),
                             closed.at(on_device),
                             heads,
                             dim,
                             kRatio,
                             top,
                             pages.tables(on_device)});
    };
    expect_done(select(TestDevice::get()->ops(), TestDevice::get()->stream(), true));
    if (with_cpu) expect_done(select(TestDevice::get()->cpu(), TestDevice::get()->host_stream(), false));
    return {device.download(), host};
  }
};

TEST(CudaQsaSelect, TheSetsOfTheCpuOnBothSidesOfTheBoundAndOfEveryTile) {
  REQUIRE_DEVICE();
  std::mt19937 rng(37);
  struct Shape {
    std::int32_t top, heads, dim, rows;
    std::int64_t extra_pitch;
  };
  for (const gpu::DType dtype : kActivationTypes) {
    for (const Shape& s :
         {Shape{12, 3, 32, 120, 16}, {12, 4, 128, 90, 16}, {7, 5, 20, 90, kOddPitch}, {1, 20, 16, 40, 16}}) {
      Select select(dtype, s.top, s.heads, s.dim, 1400, rng, s.extra_pitch);
      select.set_whole_numbers(select.keys, rng);
      OpMatrix q(dtype, s.rows, s.heads * s.dim, s.extra_pitch);
      select.set_whole_numbers(q, rng);
      for (const std::int32_t first : {0, 4 * 64 - s.rows / 2, 4 * 256 - s.rows / 2, 1400 - s.rows}) {
        const Form form = first == 0 ? Form::decode : Form::prefill;
        const Select::Chosen chosen = select.run(form, {{0, std::max(0, first), s.rows}}, q);
        ASSERT_EQ(chosen.device, chosen.host) << s.top << " of " << first;
      }
    }
  }
}

TEST(CudaQsaSelect, TheRealNumberOfBlocksOutOfManyMoreThanAThreadBlockHolds) {
  REQUIRE_DEVICE();
  std::mt19937 rng(38);
  const std::int32_t positions = TestDevice::get()->small() ? 16384 + 5 : 1024 * 1024;
  Select select(gpu::DType::bf16, 512, 4, 128, positions, rng);
  select.set_whole_numbers(select.keys, rng);
  OpMatrix q(gpu::DType::bf16, 3, 4 * 128);
  select.set_whole_numbers(q, rng);
  const Select::Chosen chosen =
      select.run(Form::decode, {{0, 2051, 1}, {0, 9000, 1}, {0, positions - 1, 1}}, q);
  EXPECT_EQ(chosen.device, chosen.host);
}

TEST(CudaQsaSelect, RowsUpToTheBoundAreNotWritten) {
  REQUIRE_DEVICE();
  std::mt19937 rng(39);
  Select select(gpu::DType::f32, 12, 3, 32, 64, rng);
  select.set_whole_numbers(select.keys, rng);
  OpMatrix q(gpu::DType::f32, 60, 96);
  select.set_whole_numbers(q, rng);
  const Select::Chosen chosen = select.run(Form::prefill, {{0, 0, 60}}, q);
  EXPECT_EQ(chosen.device, chosen.host);
  EXPECT_THAT(std::vector<std::int32_t>(chosen.device.begin(), chosen.device.begin() + 51 * 12), Each(-1));
  EXPECT_EQ(chosen.device[51 * 12 + 11] >= 0, true);
}

TEST(CudaQsaSelect, TiesGoToTheLowerBlock) {
  REQUIRE_DEVICE();
  std::mt19937 rng(40);
  Select select(gpu::DType::f32, 5, 3, 32, 160, rng);
  OpMatrix q(gpu::DType::f32, 1, 96);
  for (std::int64_t c = 0; c < 96; ++c) q.set(0, c, 1.0);
  const auto chosen = [&] { return select.run(Form::decode, {{0, 159, 1}}, q).device; };
  for (std::int32_t j = 0; j < 40; ++j) select.set_key(j, -1.0);  // relu: every score is exactly zero
  EXPECT_THAT(chosen(), ElementsAreArray({0, 1, 2, 3, 4}));
  for (const std::int32_t j : {7, 21, 22, 30, 31, 39}) select.set_key(j, 1.0);  // six bests, five places
  EXPECT_THAT(chosen(), ElementsAreArray({7, 21, 22, 30, 31}));
  select.set_key(39, 2.0);
  EXPECT_THAT(chosen(), ElementsAreArray({7, 21, 22, 30, 39}));
  for (const std::int32_t j : {7, 21, 22, 30}) select.set_key(j, -1.0);
  EXPECT_THAT(chosen(), ElementsAreArray({0, 1, 2, 31, 39}));
}

TEST(CudaQsaSelect, NaNCountsAsTheWorstScore) {
  REQUIRE_DEVICE();
  std::mt19937 rng(41);
  for (const gpu::DType dtype : kActivationTypes) {
    Select select(dtype, 3, 3, 32, 20, rng);
    OpMatrix q(dtype, 1, 96);
    for (std::int64_t c = 0; c < 96; ++c) q.set(0, c, 1.0);
    const auto chosen = [&] { return select.run(Form::decode, {{0, 19, 1}}, q).device; };
    for (std::int32_t j = 0; j < 5; ++j) select.set_key(j, -1.0);
    select.set_key(0, kNaN);
    EXPECT_THAT(chosen(), ElementsAreArray({1, 2, 3}));
    for (const std::int32_t j : {1, 2, 3}) select.set_key(j, kNaN);  // four NaNs: the lower indices fill up
    EXPECT_THAT(chosen(), ElementsAreArray({0, 1, 4}));
  }
}

TEST(CudaQsaSelect, ARowSelectsTheSameAloneAndInAnyBatchAndForm) {
  REQUIRE_DEVICE();
  std::mt19937 rng(42);
  for (const gpu::DType dtype : kActivationTypes) {
    Select select(dtype, 12, 3, 32, 1300, rng);
    select.keys = OpMatrix::random(dtype, select.keys.rows(), 32, rng);
    const OpMatrix q = OpMatrix::random(dtype, 90, 96, rng);
    const std::vector<std::int32_t> all =
        select.run(Form::prefill, {{0, 1200, 60}, {0, 30, 30}}, q, false).device;
    for (std::int32_t r = 0; r < 90; r += 3) {
      OpMatrix one(dtype, 1, 96);
      for (std::int64_t c = 0; c < 96; ++c) one.set(0, c, q.at(r, c));
      const std::int32_t position = r < 60 ? 1200 + r : 30 + r - 60;
      const Form form = r % 2 == 0 ? Form::decode : Form::prefill;
      const std::vector<std::int32_t> in_batch(all.begin() + r * 12, all.begin() + (r + 1) * 12);
      ASSERT_EQ(select.run(form, {{0, position, 1}}, one, false).device, in_batch) << "row " << r;
    }
  }
}

}  // namespace
}  // namespace kernels::testing
