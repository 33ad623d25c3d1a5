#include "kernels/moe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "kernels/cpu/cpu_ops.h"
#include "tests/kernels/cpu/op_matrix.h"

namespace kernels {
namespace {

using gpu::DType;
using testing::OpMatrix;

struct Routed {
  OpMatrix ids, weights;
  Routed(std::int64_t rows, std::int64_t top_k)
      : ids(DType::i32, rows, top_k), weights(DType::f32, rows, top_k) {}
};

Routed route(OpMatrix& logits, std::int64_t top_k, bool renormalize, int workers = 1) {
  Routed routed(logits.rows(), top_k);
  gpu::PooledHostStream stream(workers);
  EXPECT_TRUE(cpu::moe_route(stream, {routed.ids.view<std::int32_t>(), routed.weights.view<float>(),
                                      logits.matrix(), renormalize})
                  .ok());
  EXPECT_TRUE(routed.ids.padding_untouched() && routed.weights.padding_untouched());
  return routed;
}

TEST(MoeRoute, AgreesWithSoftmaxInDoublePrecision) {
  std::mt19937 random(21);
  for (const std::int64_t experts : {1, 5, 16, 17, 40, 512}) {
    for (const bool renormalize : {true, false}) {
      const std::int64_t top_k = std::min<std::int64_t>(experts, 10);
      OpMatrix logits = testing::random_f32(7, experts, random, 3.0);
      const Routed routed = route(logits, top_k, renormalize, 2);
      for (std::int64_t r = 0; r < 7; ++r) {
        std::vector<std::int64_t> order(static_cast<std::size_t>(experts));
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(),
                         [&](auto a, auto b) { return logits.at(r, a) > logits.at(r, b); });
        double total = 0.0;
        for (std::int64_t e = 0; e < (renormalize ? top_k : experts); ++e)
          total += std::exp(logits.at(r, order[static_cast<std::size_t>(e)]));
        for (std::int64_t s = 0; s < top_k; ++s) {
          const std::int64_t expert = order[static_cast<std::size_t>(s)];
          ASSERT_EQ(routed.ids.at(r, s), static_cast<double>(expert));
          const double exact = std::exp(logits.at(r, expert)) / total;
          ASSERT_NEAR(routed.weights.at(r, s), exact, 2e-6 * exact);
        }
      }
    }
  }
}

TEST(MoeRoute, TiesGoToTheLowerExpert) {
  OpMatrix logits = testing::f32(1, 20);
  for (std::int64_t e = 0; e < 20; ++e) logits.set(0, e, e == 19 || e == 4 ? 2.0 : e % 3 == 0 ? 1.0 : -1.0);
  const Routed routed = route(logits, 5, true);
  const double wanted[] = {4, 19, 0, 3, 6};
  for (std::int64_t s = 0; s < 5; ++s) EXPECT_EQ(routed.ids.at(0, s), wanted[s]) << s;
  EXPECT_EQ(routed.weights.f32(0, 2), routed.weights.f32(0, 3));
}

TEST(MoeRoute, LargeLogitsDoNotOverflow) {
  OpMatrix logits = testing::f32(1, 3);
  logits.set(0, 0, 500.0);
  logits.set(0, 1, 499.0);
  logits.set(0, 2, -500.0);
  const Routed routed = route(logits, 2, true);
  EXPECT_NEAR(routed.weights.at(0, 0), 1.0 / (1.0 + std::exp(-1.0)), 1e-6);
}

TEST(MoeRoute, NaNLogitsStillNameExperts) {
  OpMatrix logits = testing::f32(1, 18);
  for (std::int64_t e = 0; e < 18; ++e) logits.set(0, e, std::numeric_limits<double>::quiet_NaN());
  const Routed routed = route(logits, 4, true);
  for (std::int64_t s = 0; s < 4; ++s) EXPECT_EQ(routed.ids.at(0, s), static_cast<double>(s));
}

/// A layer of experts with everything that one call needs.
struct Experts {
  std::int64_t num_experts, hidden, inner, top_k;
  OpMatrix gate_up, down;

  Experts(DType dtype, std::int64_t e, std::int64_t h, std::int64_t i, std::int64_t k, std::mt19937& random)
      : num_experts(e),
        hidden(h),
        inner(i),
        top_k(k),
        gate_up(OpMatrix::random(dtype, e * 2 * i, h, random, 0.2)),
        down(OpMatrix::random(dtype, e * h, i, random, 0.2)) {}

  OpMatrix run(gpu::HostStream& stream, OpMatrix& x, OpMatrix& ids, OpMatrix& weights) {
    const std::int64_t rows = x.rows();
    OpMatrix y = testing::f32(rows, hidden), mid = testing::f32(rows * top_k, 2 * inner),
             out = testing::f32(rows * top_k, hidden);
    std::vector<std::int32_t> order(static_cast<std::size_t>(rows * top_k + num_experts + 1), -77);
    MoeExpertsArgs args;
    args.y = y.matrix();
    args.x = x.matrix();
    args.ids = ids.view<std::int32_t>();
    args.weights = weights.view<float>();
    args.gate_up = {gate_up.matrix()};
    args.down = {down.matrix()};
    args.num_experts = static_cast<std::int32_t>(num_experts);
    args.intermediate = static_cast<std::int32_t>(inner);
    args.hidden = mid.matrix();
    args.out = out.matrix();
    args.order = {order.data(), {static_cast<std::int64_t>(order.size())}};
    EXPECT_TRUE(cpu::moe_experts(stream, args).ok());
    EXPECT_TRUE(y.padding_untouched() && mid.padding_untouched() && out.padding_untouched());
    return y;
  }
};

void fill_routing(OpMatrix& ids, OpMatrix& weights, std::int64_t num_experts, std::mt19937& random) {
  std::vector<std::int64_t> experts(static_cast<std::size_t>(num_experts));
  std::iota(experts.begin(), experts.end(), 0);
  std::uniform_real_distribution<double> uniform(0.1, 1.0);
  for (std::int64_t r = 0; r < ids.rows(); ++r) {
    std::shuffle(experts.begin(), experts.end(), random);
    for (std::int64_t s = 0; s < ids.cols(); ++s) {
      ids.set(r, s, static_cast<double>(experts[static_cast<std::size_t>(s)]));
      weights.set(r, s, uniform(random));
    }
  }
}

TEST(MoeExperts, AgreesWithDoublePrecision) {
  std::mt19937 random(22);
  gpu::PooledHostStream stream(2);
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (const auto& [rows, inner] : {std::pair<std::int64_t, std::int64_t>{1, 8}, {3, 24}, {50, 40}}) {
      Experts experts(dtype, 6, 56, inner, 3, random);
      OpMatrix x = testing::random_f32(rows, 56, random);
      Routed routed(rows, 3);
      fill_routing(routed.ids, routed.weights, 6, random);
      const OpMatrix y = experts.run(stream, x, routed.ids, routed.weights);
      for (std::int64_t r = 0; r < rows; ++r) {
        std::vector<double> exact(56, 0.0);
        for (std::int64_t s = 0; s < 3; ++s) {
          const auto e = static_cast<std::int64_t>(routed.ids.at(r, s));
          std::vector<double> mid(static_cast<std::size_t>(inner));
          for (std::int64_t i = 0; i < inner; ++i) {
            double gate = 0.0, up = 0.0;
            for (std::int64_t k = 0; k < 56; ++k) {
              gate += x.at(r, k) * experts.gate_up.at(e * 2 * inner + i, k);
              up += x.at(r, k) * experts.gate_up.at(e * 2 * inner + inner + i, k);
            }
            mid[static_cast<std::size_t>(i)] = testing::silu_of(gate) * up;
          }
          for (std::int64_t n = 0; n < 56; ++n) {
            double value = 0.0;
            for (std::int64_t i = 0; i < inner; ++i)
              value += mid[static_cast<std::size_t>(i)] * experts.down.at(e * 56 + n, i);
            exact[static_cast<std::size_t>(n)] += routed.weights.at(r, s) * value;
          }
        }
        for (std::int64_t n = 0; n < 56; ++n)
          ASSERT_NEAR(y.at(r, n), exact[static_cast<std::size_t>(n)], 1e-4) << rows << " " << r << "," << n;
      }
    }
  }
}

TEST(MoeExperts, ARowHasTheSameBitsAloneAndInAnyBatch) {
  const unsigned seed = 5150;
  RecordProperty("seed", static_cast<int>(seed));
  std::mt19937 random(seed);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Experts experts(dtype, 5, 264, 136, 2, random);
    OpMatrix x = testing::random_f32(90, 264, random);
    Routed routed(90, 2);
    fill_routing(routed.ids, routed.weights, 5, random);
    gpu::PooledHostStream one(1);
    for (const int workers : {1, 2, 3}) {
      gpu::PooledHostStream stream(workers);
      const OpMatrix together = experts.run(stream, x, routed.ids, routed.weights);
      for (const std::int64_t r : {0, 1, 31, 32, 33, 64, 89}) {
        OpMatrix x_row = testing::f32(1, 264);
        Routed routed_row(1, 2);
        for (std::int64_t k = 0; k < 264; ++k) x_row.set(0, k, x.at(r, k));
        for (std::int64_t s = 0; s < 2; ++s) {
          routed_row.ids.set(0, s, routed.ids.at(r, s));
          routed_row.weights.set(0, s, routed.weights.at(r, s));
        }
        const OpMatrix alone = experts.run(one, x_row, routed_row.ids, routed_row.weights);
        ASSERT_EQ(alone.row_bits(0), together.row_bits(r))
            << to_string(dtype) << " row " << r << ", " << workers << " workers";
      }
    }
  }
}

TEST(MoeExperts, AllRowsMayChooseOneExpert) {
  std::mt19937 random(23);
  gpu::PooledHostStream stream(2);
  Experts experts(DType::f32, 4, 16, 8, 1, random);
  OpMatrix x = testing::random_f32(70, 16, random);
  Routed routed(70, 1);
  for (std::int64_t r = 0; r < 70; ++r) {
    routed.ids.set(r, 0, 3);
    routed.weights.set(r, 0, 1.0);
  }
  const OpMatrix y = experts.run(stream, x, routed.ids, routed.weights);
  for (std::int64_t r = 0; r < 70; ++r) ASSERT_TRUE(std::isfinite(y.at(r, 0)) && y.at(r, 0) != 0.0);
}

TEST(MoeExperts, AnExpertOutsideTheLayerIsRefusedByPlace) {
  std::mt19937 random(24);
  Experts experts(DType::f32, 4, 16, 8, 2, random);
  OpMatrix x = testing::random_f32(2, 16, random), y = testing::f32(2, 16), mid = testing::f32(4, 16),
           out = testing::f32(4, 16);
  Routed routed(2, 2);
  fill_routing(routed.ids, routed.weights, 4, random);
  std::vector<std::int32_t> order(9);
  gpu::PooledHostStream stream(1);
  for (const int id : {-1, 4}) {
    routed.ids.set(1, 0, id);
    MoeExpertsArgs args{y.matrix(),
                        x.matrix(),
                        routed.ids.view<std::int32_t>(),
                        routed.weights.view<float>(),
                        {experts.gate_up.matrix()},
                        {experts.down.matrix()},
                        4,
                        8,
                        Form::decode,
                        mid.matrix(),
                        out.matrix(),
                        {order.data(), {9}}};
    const auto status = cpu::moe_experts(stream, args);
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.error().what.find("ids[1][0] is " + std::to_string(id)), std::string::npos)
        << status.error().what;
  }
}

TEST(SharedExpertAdd, AddsTheGatedSharedExpert) {
  std::mt19937 random(25);
  gpu::PooledHostStream stream(1);
  for (const std::int64_t cols : {1, 16, 37}) {
    OpMatrix y = testing::random_f32(5, cols, random), shared = testing::random_f32(5, cols, random),
             gate = testing::random_f32(5, 3, random);
    const OpMatrix before = y;
    ASSERT_TRUE(cpu::shared_expert_add(stream, {y.matrix(), shared.matrix(), gate.matrix()}).ok());
    for (std::int64_t r = 0; r < 5; ++r) {
      for (std::int64_t c = 0; c < cols; ++c) {
        ASSERT_NEAR(y.at(r, c), before.at(r, c) + testing::sigmoid_of(gate.at(r, 0)) * shared.at(r, c), 1e-6);
      }
    }
    EXPECT_TRUE(y.padding_untouched());
  }
}

}  // namespace
}  // namespace kernels
