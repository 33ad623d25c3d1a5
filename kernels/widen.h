#pragma once

#include <bit>
#include <cstdint>

namespace kernels {

/// The number that an f16's bits stand for, exactly.
inline float widen_half(std::uint16_t bits) {
  const std::uint32_t sign = (std::uint32_t{bits} & 0x8000U) << 16;
  const std::uint32_t magnitude = std::uint32_t{bits} & 0x7FFFU;
  if (magnitude >= 0x7C00U) return std::bit_cast<float>(sign | 0x7F800000U | (magnitude & 0x3FFU) << 13);
  // Placing the fields as they are leaves the exponent 112 too small; the multiplication also normalises
  // subnormals.
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112F;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scaled) | sign);
}

}  // namespace kernels
