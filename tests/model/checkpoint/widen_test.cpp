#include "model/checkpoint/widen.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace model {
namespace {

TEST(Widen, EveryHalfFloatIsExact) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = widen(reinterpret_cast<const std::byte*>(&half), gpu::DType::f16, 1)[0];
    const int exponent = (half >> 10) & 0x1F;
    const int fraction = half & 0x3FF;
    if (exponent == 31) {
      EXPECT_TRUE(fraction == 0 ? std::isinf(value) : std::isnan(value)) << bits;
      continue;
    }
    const double magnitude =
        exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    ASSERT_EQ(value, static_cast<float>((half & 0x8000) != 0 ? -magnitude : magnitude)) << bits;
    ASSERT_EQ(std::signbit(value), (half & 0x8000) != 0) << bits;
  }
}

TEST(Widen, BrainFloatIsTheUpperHalfOfAFloatAtAnyAddress) {
  const std::uint16_t bits[] = {0x3F80, 0xC000, 0x0001, 0x7F80};
  std::byte raw[9];
  std::memcpy(raw + 1, bits, 8);
  const auto values = widen(raw + 1, gpu::DType::bf16, 4);
  EXPECT_EQ(values[0], 1.0F);
  EXPECT_EQ(values[1], -2.0F);
  EXPECT_EQ(values[2], std::ldexp(1.0F, -133));
  EXPECT_EQ(values[3], std::numeric_limits<float>::infinity());
}

TEST(Widen, NarrowingTakesTheNearestAndTiesToEven) {
  EXPECT_EQ(narrow_to_bf16(1.0F).bits, 0x3F80);
  EXPECT_EQ(narrow_to_bf16(1.0F + 1.0F / 256).bits, 0x3F80);  // halfway, even below
  EXPECT_EQ(narrow_to_bf16(1.0F + 3.0F / 256).bits, 0x3F82);  // halfway, even above
  EXPECT_EQ(narrow_to_bf16(1.0F + 1.1F / 256).bits, 0x3F81);
  EXPECT_EQ(narrow_to_bf16(-0.0F).bits, 0x8000);
  EXPECT_EQ(narrow_to_bf16(3.4e38F).bits, 0x7F80);  // nearer to the next power than to the largest bf16
}

TEST(Widen, NotANumberStaysOneWhenItIsNarrowed) {
  for (const std::uint32_t bits : {0x7F800001U, 0x7FFFFFFFU, 0xFFFFFFFFU, 0xFF800001U}) {
    const std::uint16_t narrow = narrow_to_bf16(std::bit_cast<float>(bits)).bits;
    EXPECT_GT(narrow & 0x7FFFU, 0x7F80U) << bits;
  }
}

TEST(Widen, ConvertedNumbersAreThoseOfTheDeviceByteForByte) {
  const std::uint16_t halves[] = {0x3C00, 0x3555, 0xC000};  // 1, a third, -2
  const auto* from = reinterpret_cast<const std::byte*>(halves);
  const auto narrow = converted(from, gpu::DType::f16, 3, gpu::DType::bf16);
  ASSERT_EQ(narrow.size(), 6U);
  const auto back = widen(narrow.data(), gpu::DType::bf16, 3);
  EXPECT_EQ(back, (std::vector<float>{1.0F, 0.333984375F, -2.0F}));
  const auto wide = converted(from, gpu::DType::f16, 3, gpu::DType::f32);
  EXPECT_EQ(widen(wide.data(), gpu::DType::f32, 3), widen(from, gpu::DType::f16, 3));
}

}  // namespace
}  // namespace model
