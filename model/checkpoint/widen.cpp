#include "model/checkpoint/widen.h"

#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>

namespace model {
namespace {

float widen_bf16(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

float widen_f16(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1FU;
  const std::uint32_t fraction = bits & 0x3FFU;
  if (exponent == 0) {  // zero and subnormals: fraction * 2^-24
    return std::bit_cast<float>(sign |
                                std::bit_cast<std::uint32_t>(std::ldexp(static_cast<float>(fraction), -24)));
  }
  const std::uint32_t widened = exponent == 0x1FU ? 0xFFU : exponent + 112U;  // 112 = 127 - 15
  return std::bit_cast<float>(sign | widened << 23 | fraction << 13);
}

float widen_e4m3(std::uint32_t byte) {
  const float sign = (byte & 0x80U) != 0 ? -1.0F : 1.0F;
  const std::uint32_t exponent = byte >> 3 & 0xFU, fraction = byte & 0x7U;
  if (exponent == 0xFU && fraction == 0x7U) return std::numeric_limits<float>::quiet_NaN();
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -9);
  return sign * std::ldexp(static_cast<float>(8 + fraction), static_cast<int>(exponent) - 10);
}

}  // namespace

std::vector<gpu::bf16> scaled_e4m3(float scale) {
  std::vector<gpu::bf16> values;
  for (std::uint32_t byte = 0; byte < 256; ++byte) values.push_back(narrow_to_bf16(widen_e4m3(byte) * scale));
  return values;
}

std::vector<float> widen(const std::byte* from, gpu::DType dtype, std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  if (dtype == gpu::DType::f32) {
    std::memcpy(values.data(), from, values.size() * sizeof(float));
    return values;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, from + i * sizeof bits, sizeof bits);
    values[i] = dtype == gpu::DType::f16 ? widen_f16(bits) : widen_bf16(bits);
  }
  return values;
}

gpu::bf16 narrow_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return {static_cast<std::uint16_t>(bits >> 16 | 0x40U)};
  return {static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16)};
}

std::vector<std::byte> converted(const std::byte* from, gpu::DType dtype, std::int64_t count, gpu::DType to) {
  assert(to == gpu::DType::f32 || to == gpu::DType::bf16);
  const std::vector<float> values = widen(from, dtype, count);
  std::vector<std::byte> bytes(static_cast<std::size_t>(gpu::bytes_of(to, gpu::Elements{count}).n));
  if (to == gpu::DType::f32) {
    if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const gpu::bf16 narrow = narrow_to_bf16(values[i]);
    std::memcpy(bytes.data() + i * sizeof narrow, &narrow, sizeof narrow);
  }
  return bytes;
}

}  // namespace model
