#include "kernels/philox.h"

#include <gtest/gtest.h>

namespace kernels::cpu {
namespace {

/// The known answers published with the algorithm (Random123, kat_vectors, philox 4x32 10).
TEST(Philox, GivesThePublishedAnswers) {
  using Words = std::array<std::uint32_t, 4>;
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, UniformDependsOnEachHalfOfTheSeedAndOnThePosition) {
  EXPECT_NE(uniform(1, 0), uniform(2, 0));
  EXPECT_NE(uniform(1, 0), uniform(1ULL << 32 | 1, 0));
  EXPECT_NE(uniform(1, 0), uniform(1, 1));
  EXPECT_EQ(uniform(0, 0), 0x6627e8d5 * 0x1p-32);
}

TEST(Philox, UniformStaysBelowOneWithTheRightMean) {
  double sum = 0.0;
  for (std::int32_t position = 0; position < 100000; ++position) {
    const double u = uniform(42, position);
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
  }
  EXPECT_NEAR(sum / 100000.0, 0.5, 0.005);
}

}  // namespace
}  // namespace kernels::cpu
