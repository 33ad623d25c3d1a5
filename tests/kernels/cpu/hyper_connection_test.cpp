#include "kernels/hyper_connection.h"

#include <gtest/gtest.h>

#include "kernels/cpu/cpu_ops.h"
#include "tests/kernels/cpu/op_matrix.h"

namespace kernels {
namespace {

using testing::OpMatrix;

TEST(RepeatStreams, EveryStreamIsTheRow) {
  std::mt19937 random(51);
  gpu::PooledHostStream stream(1);
  OpMatrix x = testing::random_f32(3, 5, random), h = testing::f32(3, 15);
  ASSERT_TRUE(cpu::repeat_streams(stream, {h.matrix(), x.matrix(), 3}).ok());
  for (std::int64_t r = 0; r < 3; ++r) {
    for (std::int64_t c = 0; c < 15; ++c) ASSERT_EQ(h.at(r, c), x.at(r, c % 5));
  }
  EXPECT_TRUE(h.padding_untouched());
}

TEST(MixStreams, IsTheMeanOfTheGatedStreams) {
  std::mt19937 random(52);
  gpu::PooledHostStream stream(2);
  for (const std::int32_t streams : {1, 3, 4}) {
    for (const std::int64_t hidden : {1, 16, 21}) {
      OpMatrix g = testing::random_f32(4, hidden * streams, random, 2.0),
               xn = testing::random_f32(4, hidden * streams, random), x = testing::f32(4, hidden);
      ASSERT_TRUE(cpu::mix_streams(stream, {x.matrix(), g.matrix(), xn.matrix(), streams}).ok());
      for (std::int64_t r = 0; r < 4; ++r) {
        for (std::int64_t i = 0; i < hidden; ++i) {
          double exact = 0.0;
          for (std::int64_t s = 0; s < streams; ++s)
            exact += testing::sigmoid_of(g.at(r, s * hidden + i)) * xn.at(r, s * hidden + i) / streams;
          ASSERT_NEAR(x.at(r, i), exact, 1e-6);
        }
      }
      EXPECT_TRUE(x.padding_untouched());
    }
  }
}

TEST(InjectStreams, EachStreamTakesTheRowByItsOwnWeight) {
  std::mt19937 random(53);
  gpu::PooledHostStream stream(2);
  for (const std::int32_t streams : {1, 3, 4}) {
    for (const std::int64_t hidden : {1, 16, 21}) {
      OpMatrix h = testing::random_f32(4, hidden * streams, random),
               y = testing::random_f32(4, hidden, random),
               inject = testing::random_f32(4, streams + 2, random, 4.0);
      const OpMatrix before = h;
      ASSERT_TRUE(cpu::inject_streams(stream, {h.matrix(), y.matrix(), inject.matrix(), streams}).ok());
      for (std::int64_t r = 0; r < 4; ++r) {
        for (std::int64_t c = 0; c < hidden * streams; ++c) {
          const double weight = 2.0 * testing::sigmoid_of(inject.at(r, c / hidden) / streams);
          ASSERT_NEAR(h.at(r, c), before.at(r, c) + weight * y.at(r, c % hidden), 2e-6);
        }
      }
      EXPECT_TRUE(h.padding_untouched());
    }
  }
}

TEST(InjectStreams, ZeroWeightIsAPlainResidualAdd) {
  gpu::PooledHostStream stream(1);
  OpMatrix h = testing::f32(1, 4), y = testing::f32(1, 2), inject = testing::f32(1, 2);
  for (std::int64_t i = 0; i < 4; ++i) h.set(0, i, 10.0 + static_cast<double>(i));
  y.set(0, 0, 0.5);
  y.set(0, 1, -3.0);
  inject.set(0, 0, 0.0);
  inject.set(0, 1, 0.0);
  ASSERT_TRUE(cpu::inject_streams(stream, {h.matrix(), y.matrix(), inject.matrix(), 2}).ok());
  const double wanted[] = {10.5, 8.0, 12.5, 10.0};
  for (std::int64_t i = 0; i < 4; ++i) EXPECT_EQ(h.at(0, i), wanted[i]);
}

}  // namespace
}  // namespace kernels
