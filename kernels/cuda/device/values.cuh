#pragma once

#include "gpu/dtype.h"
#include "kernels/cuda/device/intrinsics.cuh"

/// Values of activations and weights in registers: always fp32, converted where they are loaded and stored.
namespace kernels::cuda {

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(gpu::bf16 x) { return __uint_as_float(std::uint32_t{x.bits} << 16); }

__device__ inline float to_float(gpu::f16 x) {
  const std::uint32_t sign = (std::uint32_t{x.bits} & 0x8000U) << 16;
  const std::uint32_t magnitude = std::uint32_t{x.bits} & 0x7FFFU;
  if (magnitude >= 0x7C00U) return __uint_as_float(sign | 0x7F800000U | (magnitude & 0x3FFU) << 13);
  // Placing the fields as they are leaves the exponent 112 too small; the product normalises subnormals too.
  return __uint_as_float(__float_as_uint(__uint_as_float(magnitude << 13) * 0x1p112F) | sign);
}

/// bf16: to nearest, ties to even; NaN stays NaN.
template <class T>
__device__ T from_float(float x);
template <>
__device__ inline float from_float<float>(float x) {
  return x;
}
template <>
__device__ inline gpu::bf16 from_float<gpu::bf16>(float x) {
  const std::uint32_t bits = __float_as_uint(x);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return {static_cast<std::uint16_t>(bits >> 16 | 0x40U)};
  return {static_cast<std::uint16_t>((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16)};
}
/// What x is once it was stored as T.
template <class T>
__device__ float rounded(float x) {
  return to_float(from_float<T>(x));
}

/// How many values 16 bytes hold.
template <class T>
inline constexpr int kPer16 = 16 / static_cast<int>(sizeof(T));

struct alignas(16) Bytes16 {
  std::uint32_t words[4];
};

/// 16 bytes from a 16-byte boundary, as fp32.
template <class T>
__device__ void load_16(const T* from, float (&to)[kPer16<T>]) {
  const uint4 raw = *reinterpret_cast<const uint4*>(from);
  const std::uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (sizeof(T) == 4) {
      to[i] = __uint_as_float(words[i]);
    } else {
      to[2 * i] = __uint_as_float(words[i] << 16);
      to[2 * i + 1] = __uint_as_float(words[i] & 0xFFFF0000U);
    }
  }
}
template <class T>
__device__ void store_16(T* to, const float (&from)[kPer16<T>]) {
  std::uint32_t words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (sizeof(T) == 4) {
      words[i] = __float_as_uint(from[i]);
    } else {
      words[i] = std::uint32_t{from_float<T>(from[2 * i]).bits} |
                 std::uint32_t{from_float<T>(from[2 * i + 1]).bits} << 16;
    }
  }
  *reinterpret_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
}

/// Accurate in fp32 (no fast-math intrinsics anywhere: a value must not depend on how a kernel was compiled).
__device__ inline float sigmoid(float x) { return 1.0F / (1.0F + expf(-x)); }
__device__ inline float silu(float x) { return x / (1.0F + expf(-x)); }

}  // namespace kernels::cuda
