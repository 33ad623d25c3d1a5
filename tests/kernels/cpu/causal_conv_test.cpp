#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/recurrent.h"
#include "tests/kernels/cpu/sequence_rows.h"

namespace kernels::testing {
namespace {

constexpr std::int32_t kSlots = 3;

/// One sequence's inputs and a ring whose content before the first call is NaN.
struct Convolution {
  std::int32_t taps, dilation, ring_rows;
  ConvActivation activation = ConvActivation::silu;
  Floats w, ring;

  Convolution(std::int64_t channels, std::int32_t num_taps, std::int32_t dil, std::int32_t extra_rows,
              std::mt19937& rng)
      : taps(num_taps),
        dilation(dil),
        ring_rows((num_taps - 1) * dil + extra_rows),
        w(channels, num_taps),
        ring(std::int64_t{kSlots} * ring_rows, channels) {
    w.randomize(rng);
  }

  void run(const RowBatch& batch, gpu::Matrix y, gpu::ConstMatrix x, int num_workers = 1) {
    ThreadsStream stream(num_workers);
    ASSERT_TRUE(
        cpu::causal_conv(stream, batch, {y, x, w.view(), ring.view(), ring_rows, taps, dilation, activation})
            .ok());
  }
  /// x in calls of the given cuts.
  Floats run_cut(std::int32_t slot, const Floats& x, const std::vector<std::int32_t>& cuts,
                 Form form = Form::prefill) {
    Floats y(x.rows, x.cols);
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
      const std::int32_t n = cuts[i + 1] - cuts[i];
      const SegmentRows rows(form, {{slot, cuts[i], n}});
      run(rows.batch(), y.part(cuts[i], n), x.part(cuts[i], n), 1 + static_cast<int>(i % 3));
    }
    return y;
  }
  double expected(const Floats& x, std::int64_t t, std::int64_t channel) const {
    double sum = 0.0;
    for (std::int32_t j = 0; j < taps; ++j) {
      const std::int64_t from = t - std::int64_t{taps - 1 - j} * dilation;
      if (from >= 0) sum += double{w.at(channel, j)} * double{x.at(from, channel)};
    }
    return activation == ConvActivation::silu ? sum / (1.0 + std::exp(-sum)) : sum;
  }
};

TEST(CausalConv, MatchesDoublePrecisionAndReadsNothingBeforeTheSequence) {
  std::mt19937 rng(21);
  for (const std::int64_t channels : {16, 40, 256, 300}) {
    for (const std::int32_t dilation : {1, 3}) {
      for (const ConvActivation activation : {ConvActivation::none, ConvActivation::silu}) {
        Convolution conv(channels, 4, dilation, 2, rng);
        conv.activation = activation;
        Floats x(30, channels);
        x.randomize(rng);
        const Floats y = conv.run_cut(1, x, {0, 30});
        for (std::int64_t t = 0; t < 30; ++t) {
          for (std::int64_t c = 0; c < channels; ++c) ASSERT_NEAR(y.at(t, c), conv.expected(x, t, c), 2e-6);
        }
      }
    }
  }
}

TEST(CausalConv, AnyCutIntoCallsOfEitherFormGivesTheSameBitsAndTheSameRing) {
  std::mt19937 rng(22);
  std::cout << "seed 22\n";
  for (int round = 0; round < 60; ++round) {
    Convolution whole(48, 4, round % 2 == 0 ? 1 : 3, round % 5, rng);
    Convolution cut = whole;
    Floats x(41, 48);
    x.randomize(rng);
    const Floats expected = whole.run_cut(2, x, {0, 41});
    const Floats got = cut.run_cut(2, x, random_cuts(41, 1, round % 3 == 0 ? 2 : 15, rng),
                                   round % 4 == 0 ? Form::decode : Form::prefill);
    ASSERT_TRUE(same_bits(got, expected)) << "round " << round;
    ASSERT_TRUE(same_bits(cut.ring, whole.ring)) << "round " << round;
  }
}

TEST(CausalConv, AShortSegmentReplacesOnlyItsOwnRingRows) {
  std::mt19937 rng(23);
  Convolution conv(16, 4, 3, 3, rng);  // 12 ring rows
  Floats x(20, 16);
  x.randomize(rng);
  conv.run_cut(0, x, {0, 18, 20});
  for (std::int32_t p = 8; p < 20; ++p) EXPECT_TRUE(same_bits(conv.ring.row(p % 12), x.row(p), 16)) << p;
  for (std::int64_t r = 12; r < conv.ring.rows; ++r)
    EXPECT_TRUE(std::isnan(conv.ring.at(r, 0))) << "another slot's row";
}

TEST(CausalConv, AnImpulseShowsAtItsLagsOnly) {
  std::mt19937 rng(24);
  Convolution conv(16, 4, 3, 0, rng);
  conv.activation = ConvActivation::none;
  Floats x(20, 16);
  x.fill(0.0F);
  x.at(5, 7) = 1.0F;
  const Floats y = conv.run_cut(0, x, {0, 3, 4, 9, 11, 20});
  for (std::int32_t t = 0; t < 20; ++t) {
    const std::int32_t lag = t - 5;
    const bool shows = lag >= 0 && lag % 3 == 0 && lag <= 9;
    EXPECT_EQ(y.at(t, 7), shows ? conv.w.at(7, 3 - lag / 3) : 0.0F) << "t " << t;
    EXPECT_EQ(y.at(t, 6), 0.0F);
  }
}

TEST(CausalConv, SequencesOfOneBatchDoNotMeet) {
  std::mt19937 rng(25);
  Convolution together(32, 4, 1, 1, rng);
  Convolution apart = together;
  Floats x(30, 32);
  x.randomize(rng);
  const SegmentRows first(Form::prefill, {{2, 0, 7}, {0, 0, 2}, {1, 0, 6}});
  const SegmentRows second(Form::prefill, {{1, 6, 1}, {2, 7, 9}, {0, 2, 5}});
  Floats y(30, 32);
  together.run(first.batch(), y.part(0, 15), x.part(0, 15), 3);
  together.run(second.batch(), y.part(15, 15), x.part(15, 15), 2);
  const std::vector<std::vector<std::int64_t>> rows_of{
      {7, 8, 25, 26, 27, 28, 29}, {9, 10, 11, 12, 13, 14, 15}, {}};
  for (std::int32_t slot = 0; slot < 2; ++slot) {
    const auto& rows = rows_of[static_cast<std::size_t>(slot)];
    Floats alone(7, 32);
    for (std::size_t i = 0; i < rows.size(); ++i)
      std::copy_n(x.row(rows[i]), 32, alone.row(static_cast<std::int64_t>(i)));
    const Floats expected = apart.run_cut(slot, alone, {0, 7});
    for (std::size_t i = 0; i < rows.size(); ++i) {
      EXPECT_TRUE(same_bits(y.row(rows[i]), expected.row(static_cast<std::int64_t>(i)), 32));
    }
  }
}

}  // namespace
}  // namespace kernels::testing
