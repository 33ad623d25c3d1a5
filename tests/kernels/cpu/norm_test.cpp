#include "kernels/norm.h"

#include <gtest/gtest.h>

#include "kernels/cpu/cpu_ops.h"
#include "tests/kernels/cpu/op_matrix.h"

namespace kernels {
namespace {

using gpu::DType;
using testing::OpMatrix;

gpu::ConstVector vector_of(OpMatrix& m) { return {m.matrix().base, DType::f32, {m.cols()}}; }

double inverse_rms(const OpMatrix& x, std::int64_t r, std::int64_t first, std::int64_t n, double eps) {
  double squares = 0.0;
  for (std::int64_t c = first; c < first + n; ++c) squares += x.at(r, c) * x.at(r, c);
  return 1.0 / std::sqrt(squares / static_cast<double>(n) + eps);
}

constexpr double kTolerance = 3e-6;  // relative: a handful of fp32 roundings and one inverse square root

TEST(RmsNorm, AgreesWithDoublePrecisionPerGroupForBothWeights) {
  std::mt19937 random(41);
  gpu::PooledHostStream stream(2);
  for (const std::int64_t group : {1, 8, 16, 33, 64}) {
    for (const std::int64_t groups : {1, 4}) {
      for (const bool elementwise : {false, true}) {
        for (const NormWeight kind : {NormWeight::plain, NormWeight::one_plus}) {
          const std::int64_t cols = group * groups;
          OpMatrix x = testing::random_f32(5, cols, random, 3.0), y = testing::f32(5, cols);
          OpMatrix w = testing::random_f32(1, elementwise ? cols : group, random);
          ASSERT_TRUE(
              cpu::rms_norm(stream, {y.matrix(), x.matrix(), vector_of(w), {group}, kind, 1e-5F}).ok());
          for (std::int64_t r = 0; r < 5; ++r) {
            for (std::int64_t c = 0; c < cols; ++c) {
              const double weight =
                  w.at(0, elementwise ? c : c % group) + (kind == NormWeight::one_plus ? 1.0 : 0.0);
              const double normed = x.at(r, c) * inverse_rms(x, r, c / group * group, group, 1e-5);
              ASSERT_NEAR(y.at(r, c), normed * weight,
                          kTolerance * std::abs(normed) * (std::abs(weight) + 1.0))
                  << group << " " << c;
            }
          }
          EXPECT_TRUE(y.padding_untouched());
          ASSERT_TRUE(
              cpu::rms_norm(stream, {x.matrix(), x.matrix(), vector_of(w), {group}, kind, 1e-5F}).ok());
          for (std::int64_t r = 0; r < 5; ++r) ASSERT_EQ(x.row_bits(r), y.row_bits(r)) << "in place";
        }
      }
    }
  }
}

TEST(RmsNorm, EpsilonKeepsAZeroRowZero) {
  gpu::PooledHostStream stream(1);
  OpMatrix x = testing::f32(1, 8), w = testing::f32(1, 8), y = testing::f32(1, 8);
  for (std::int64_t c = 0; c < 8; ++c) {
    x.set(0, c, 0.0);
    w.set(0, c, 1.0);
  }
  ASSERT_TRUE(
      cpu::rms_norm(stream, {y.matrix(), x.matrix(), vector_of(w), {8}, NormWeight::plain, 1e-6F}).ok());
  for (std::int64_t c = 0; c < 8; ++c) EXPECT_EQ(y.at(0, c), 0.0);
}

TEST(GatedRmsNorm, NormsFirstAndGatesAfter) {
  std::mt19937 random(42);
  gpu::PooledHostStream stream(2);
  for (const GateActivation activation : {GateActivation::sigmoid, GateActivation::silu}) {
    for (const std::int64_t group : {8, 20, 32}) {
      OpMatrix x = testing::random_f32(4, group * 3, random, 2.0),
               z = testing::random_f32(4, group * 3, random, 3.0), w = testing::random_f32(1, group, random);
      OpMatrix y = testing::f32(4, group * 3);
      ASSERT_TRUE(cpu::gated_rms_norm(
                      stream, {y.matrix(), x.matrix(), z.matrix(), vector_of(w), {group}, activation, 1e-6F})
                      .ok());
      for (std::int64_t r = 0; r < 4; ++r) {
        for (std::int64_t c = 0; c < group * 3; ++c) {
          const double gate = activation == GateActivation::silu ? testing::silu_of(z.at(r, c))
                                                                 : testing::sigmoid_of(z.at(r, c));
          const double exact =
              x.at(r, c) * inverse_rms(x, r, c / group * group, group, 1e-6) * w.at(0, c % group) * gate;
          ASSERT_NEAR(y.at(r, c), exact, kTolerance * std::abs(exact) + 1e-9);
        }
      }
      EXPECT_TRUE(y.padding_untouched());
      ASSERT_TRUE(cpu::gated_rms_norm(
                      stream, {x.matrix(), x.matrix(), z.matrix(), vector_of(w), {group}, activation, 1e-6F})
                      .ok());
      for (std::int64_t r = 0; r < 4; ++r) ASSERT_EQ(x.row_bits(r), y.row_bits(r)) << "in place";
    }
  }
}

struct RopeCase {
  std::int32_t heads, head_dim, head_stride;
  std::int64_t half;
  bool normed;
};

class HeadNormRope : public ::testing::TestWithParam<RopeCase> {};

TEST_P(HeadNormRope, AgreesWithDoublePrecisionAtFarPositions) {
  const RopeCase p = GetParam();
  std::mt19937 random(43);
  gpu::PooledHostStream stream(2);
  std::vector<std::int32_t> slots = {0, 0, 0, 0}, positions = {0, 1, 4097, 262143}, first = {0}, count = {4};
  const RowBatch batch{Form::prefill,
                       {4},
                       {slots.data(), {4}},
                       {positions.data(), {4}},
                       1,
                       {slots.data(), {1}},
                       {first.data(), {1}},
                       {count.data(), {1}},
                       4,
                       262143};
  std::vector<float> inv_freq;
  for (std::int64_t i = 0; i < p.half; ++i)
    inv_freq.push_back(
        static_cast<float>(std::pow(1e7, -static_cast<double>(i) / static_cast<double>(p.half))));
  OpMatrix x = testing::random_f32(4, std::int64_t{p.head_stride} * (p.heads - 1) + p.head_dim, random),
           w = testing::random_f32(1, p.head_dim, random);
  OpMatrix y = testing::f32(4, std::int64_t{p.heads} * p.head_dim);
  HeadNormRopeArgs args{y.matrix(),           x.matrix(),    p.heads,
                        p.head_dim,           p.head_stride, {},
                        NormWeight::one_plus, 1e-6F,         {{inv_freq.data(), {p.half}}, 1.25F}};
  if (p.normed) args.w = vector_of(w);
  ASSERT_TRUE(cpu::head_norm_rope(stream, batch, args).ok());
  for (std::int64_t r = 0; r < 4; ++r) {
    for (std::int64_t h = 0; h < p.heads; ++h) {
      const std::int64_t from = h * p.head_stride;
      const double scale = p.normed ? inverse_rms(x, r, from, p.head_dim, 1e-6) : 1.0;
      const auto normed = [&](std::int64_t i) {
        return x.at(r, from + i) * scale * (p.normed ? 1.0 + w.at(0, i) : 1.0);
      };
      for (std::int64_t i = 0; i < p.head_dim; ++i) {
        double exact = normed(i);
        if (i < 2 * p.half) {
          const std::int64_t pair = i % p.half;
          const float angle = static_cast<float>(positions[static_cast<std::size_t>(r)]) *
                              inv_freq[static_cast<std::size_t>(pair)];  // in fp32
          const double c = 1.25 * std::cos(static_cast<double>(angle)),
                       s = 1.25 * std::sin(static_cast<double>(angle));
          exact = i < p.half ? normed(pair) * c - normed(pair + p.half) * s
                             : normed(pair + p.half) * c + normed(pair) * s;
        }
        ASSERT_NEAR(y.at(r, h * p.head_dim + i), exact, 1.5e-5)
            << "row " << r << " head " << h << " column " << i;
      }
    }
  }
  EXPECT_TRUE(y.padding_untouched());
  if (p.head_stride == p.head_dim) {
    args.y = x.matrix();
    ASSERT_TRUE(cpu::head_norm_rope(stream, batch, args).ok());
    for (std::int64_t r = 0; r < 4; ++r) ASSERT_EQ(x.row_bits(r), y.row_bits(r)) << "in place";
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, HeadNormRope,
                         ::testing::Values(RopeCase{4, 16, 16, 8, false}, RopeCase{4, 16, 32, 4, true},
                                           RopeCase{3, 24, 24, 5, true}, RopeCase{1, 40, 40, 0, true},
                                           RopeCase{2, 600, 600, 300, true}));

}  // namespace
}  // namespace kernels
