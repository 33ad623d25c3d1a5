#include "kernels/recurrent.h"
#include "tests/kernels/cuda/twin.h"

namespace kernels::testing {
namespace {

using gpu::DType;

constexpr std::int32_t kSlots = 4;

struct ConvShape {
  std::int64_t channels;
  std::int32_t taps, dilation, extra_ring_rows;
};

/// One layer and the inputs of one sequence; the ring is NaN where nothing was put.
struct Convolution {
  ConvShape shape;
  std::int32_t ring_rows;
  Twin w, x, y, ring;
  ConvActivation activation = ConvActivation::silu;

  Convolution(const ConvShape& s, DType dtype, std::int64_t rows, std::mt19937& rng,
              std::int64_t extra_pitch = 16)
      : shape(s),
        ring_rows((s.taps - 1) * s.dilation + s.extra_ring_rows),
        w(Twin::random(DType::f32, s.channels, s.taps, rng, 0.5, extra_pitch)),
        x(Twin::random(dtype, rows, s.channels, rng, 1.0, extra_pitch)),
        y(dtype, rows, s.channels, extra_pitch),
        ring(dtype, std::int64_t{kSlots} * ring_rows, s.channels, extra_pitch) {}

  CausalConvArgs args(bool device, std::int64_t first, std::int64_t n) {
    return {y.part(device, first, n),
            x.part(device, first, n),
            w.at(device),
            ring.at(device),
            ring_rows,
            shape.taps,
            shape.dilation,
            activation};
  }
  /// The next rows of x as these segments, on the device and, if wanted, the CPU.
  void run(Form form, std::int64_t first, const std::vector<Segment>& segments, bool cpu_too) {
    const SegmentRows rows(form, segments);
    const DeviceBatch batch(rows.batch());
    const std::int64_t n = rows.batch().num_rows.n;
    TestDevice& test = *TestDevice::get();
    expect_done(test.ops().causal_conv(test.stream(), batch.batch(), args(true, first, n)));
    EXPECT_EQ(complaint_of_step(), "");
    if (!cpu_too) return;
    expect_done(test.cpu().causal_conv(test.host_stream(), rows.batch(), args(false, first, n)));
  }
  void run_cut(Form form, std::int32_t slot, const std::vector<std::int32_t>& cuts) {
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
      run(form, cuts[i], {{slot, cuts[i], cuts[i + 1] - cuts[i]}}, false);
    }
  }
};

/// Taps of the two layers that have one, and others; channels of whole pieces and not.
const std::vector<ConvShape> kShapes = {{64, 4, 1, 0}, {40, 4, 3, 2}, {1032, 4, 1, 3}, {48, 2, 1, 0},
                                        {21, 4, 1, 1}, {16, 1, 1, 1}, {24, 7, 2, 5},   {515, 4, 3, 0}};

struct Scheduled {
  std::int32_t slot, rows;
};

TEST(CudaCausalConv, SegmentsOfAnyLengthAgreeWithTheCpuAcrossCalls) {
  REQUIRE_DEVICE();
  std::mt19937 rng(21);
  std::vector<ConvShape> shapes = kShapes;
  if (!TestDevice::get()->small()) shapes.push_back({10240, 4, 1, 3});
  for (const DType dtype : kActivationTypes) {
    for (const ConvShape& shape : shapes) {
      for (const ConvActivation activation : {ConvActivation::silu, ConvActivation::none}) {
        SCOPED_TRACE(::testing::Message()
                     << shape.channels << " channels, " << shape.taps << " taps, dilation " << shape.dilation
                     << " " << gpu::to_string(dtype));
        Convolution conv(shape, dtype, 240, rng);
        conv.activation = activation;
        std::vector<std::int32_t> position(kSlots, 0);
        std::int64_t first = 0;
        const std::vector<std::vector<Scheduled>> schedule = {
            {{1, 1}, {3, 17}, {0, 16}},       {{1, 1}, {0, 2}},
            {{0, 40}, {1, 15}, {2, 3}},       {{2, 1}, {3, 1}, {1, 33}},
            {{0, 1}, {1, 1}, {2, 1}, {3, 1}}, {{2, 100}}};
        for (const std::vector<Scheduled>& step : schedule) {
          std::vector<Segment> segments;
          for (const auto [slot, rows] : step) {
            segments.push_back({slot, position[static_cast<std::size_t>(slot)], rows});
            position[static_cast<std::size_t>(slot)] += rows;
          }
          conv.run(first % 2 == 0 ? Form::prefill : Form::decode, first, segments, true);
          for (const auto& [slot, rows] : step) first += rows;
        }
        ASSERT_LE(first, 240);
        conv.y.expect_first_rows_near(first, "y");
        // Bit for bit: rows that nobody wrote hold the same NaN. At least one slot has such rows.
        const OpMatrix& ring = conv.ring.from_device();
        for (std::int64_t r = 0; r < ring.rows(); ++r) {
          for (std::int64_t c = 0; c < ring.cols(); ++c) {
            const double a = ring.at(r, c), b = conv.ring.from_host().at(r, c);
            ASSERT_TRUE(a == b || (std::isnan(a) && std::isnan(b))) << "ring row " << r;
          }
        }
        EXPECT_TRUE(ring.padding_untouched());
      }
    }
  }
}

TEST(CudaCausalConv, AnyCutOfEitherFormHasTheSameBitsAndTheSameRing) {
  REQUIRE_DEVICE();
  for (const DType dtype : kActivationTypes) {
    for (int round = 0; round < 24; ++round) {
      const auto seed = static_cast<unsigned>(100 + round);
      const ConvShape shape{40, 4, round % 2 == 0 ? 1 : 3, round % 5};
      std::mt19937 a(seed), b(seed), c(seed), cuts(seed);
      Convolution whole(shape, dtype, 75, a), cut(shape, dtype, 75, b), odd(shape, dtype, 75, c, kOddPitch);
      whole.run_cut(Form::prefill, 2, {0, 75});
      odd.run_cut(Form::prefill, 2, {0, 75});
      cut.run_cut(round % 3 == 0 ? Form::decode : Form::prefill, 2,
                  random_cuts(75, 1, round % 4 == 0 ? 2 : 30, cuts));
      ASSERT_TRUE(same_rows(cut.y.from_device(), whole.y.from_device())) << "round " << round;
      ASSERT_TRUE(same_rows(odd.y.from_device(), whole.y.from_device())) << "round " << round;
      const std::int64_t ring = 2 * whole.ring_rows;
      ASSERT_TRUE(same_rows(cut.ring.from_device(), ring, whole.ring.from_device(), ring, whole.ring_rows));
      ASSERT_TRUE(same_rows(odd.ring.from_device(), ring, whole.ring.from_device(), ring, whole.ring_rows));
    }
  }
}

TEST(CudaCausalConv, ABatchGivesEachSequenceWhatItGetsAlone) {
  REQUIRE_DEVICE();
  for (const DType dtype : kActivationTypes) {
    for (const std::int32_t rows : {1, 5, 40}) {
      std::mt19937 a(31), b(31);
      Convolution together({64, 4, 3, 1}, dtype, 3 * rows, a), alone({64, 4, 3, 1}, dtype, 3 * rows, b);
      const std::vector<Segment> segments = {{3, 0, rows}, {0, 0, rows}, {2, 0, rows}};
      together.run(Form::decode, 0, segments, false);
      for (std::size_t i = 0; i < segments.size(); ++i) {
        alone.run(Form::decode, static_cast<std::int64_t>(i) * rows, {segments[i]}, false);
      }
      EXPECT_TRUE(same_rows(together.y.from_device(), alone.y.from_device())) << rows;
    }
  }
}

TEST(CudaCausalConv, NoRowsAreANoOp) {
  REQUIRE_DEVICE();
  std::mt19937 rng(32);
  Convolution conv({16, 4, 1, 0}, DType::f32, 1, rng);
  TestDevice& test = *TestDevice::get();
  expect_done(test.ops().causal_conv(test.stream(), RowBatch{}, conv.args(true, 0, 0)));
  EXPECT_EQ(complaint_of_step(), "");
}

}  // namespace
}  // namespace kernels::testing
