#pragma once

#include <cstdint>
#include <string_view>

#include "gpu/units.h"

namespace gpu {

/// f8_e4m3 (four exponent bits, three of fraction, no infinity) is a type of files alone: no operation takes
/// it.
enum class DType : std::uint8_t { f32, f16, bf16, i32, i64, u8, f8_e4m3 };

constexpr std::int64_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return 4;
    case DType::f16:
      return 2;
    case DType::bf16:
      return 2;
    case DType::i32:
      return 4;
    case DType::i64:
      return 8;
    case DType::u8:
    case DType::f8_e4m3:
      return 1;
  }
  return 0;
}
constexpr Bytes bytes_of(DType dtype, Elements elements) { return {size_of(dtype) * elements.n}; }

constexpr std::string_view to_string(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "f32";
    case DType::f16:
      return "f16";
    case DType::bf16:
      return "bf16";
    case DType::i32:
      return "i32";
    case DType::i64:
      return "i64";
    case DType::u8:
      return "u8";
    case DType::f8_e4m3:
      return "f8_e4m3";
  }
  return "?";
}

/// Storage types: bits only. Arithmetic happens in fp32 inside kernels.
struct bf16 {
  std::uint16_t bits;
};
struct f16 {
  std::uint16_t bits;
};

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct DTypeOf<f16> {
  static constexpr DType value = DType::f16;
};
template <>
struct DTypeOf<bf16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr DType value = DType::i64;
};
template <>
struct DTypeOf<std::uint8_t> {
  static constexpr DType value = DType::u8;
};

}  // namespace gpu
