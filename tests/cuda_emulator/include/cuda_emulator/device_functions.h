#pragma once

#include <math.h>

#include <algorithm>
#include <bit>
#include <cassert>

#include "cuda_emulator/block.h"

/// CUDA's device functions, as far as kernels use them. Add here what a kernel needs and lacks.

// ---- meeting points ----

inline void __syncthreads() { cuda_emulator::meet_block("__syncthreads", false); }
inline int __syncthreads_count(int predicate) {
  return cuda_emulator::meet_block("__syncthreads_count", predicate != 0);
}
inline int __syncthreads_or(int predicate) {
  return cuda_emulator::meet_block("__syncthreads_or", predicate != 0) != 0;
}
/// All living threads brought true: none brought false.
inline int __syncthreads_and(int predicate) {
  return cuda_emulator::meet_block("__syncthreads_and", predicate == 0) == 0;
}
inline void __syncwarp(unsigned mask = 0xFFFFFFFFU) {
  int lane = 0;
  cuda_emulator::meet_warp("__syncwarp", mask, 0, &lane);
}
// Memory is one and threads run one at a time: a fence has nothing left to order.
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
[[noreturn]] inline void __trap() { cuda_emulator::trap(); }

// ---- warp collectives; as in CUDA, a source outside the segment gives the lane its own value ----

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  int lane = 0;
  const auto* const slots = cuda_emulator::meet_warp("__shfl_sync", mask, value, &lane);
  return slots[(lane & ~(width - 1)) | (source & (width - 1))].template get<T>();
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int apart, int width = 32) {
  int lane = 0;
  const auto* const slots = cuda_emulator::meet_warp("__shfl_xor_sync", mask, value, &lane);
  const int source = lane ^ apart;
  return slots[source <= (lane | (width - 1)) ? source & 31 : lane].template get<T>();
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned apart, int width = 32) {
  int lane = 0;
  const auto* const slots = cuda_emulator::meet_warp("__shfl_up_sync", mask, value, &lane);
  const int source = lane - static_cast<int>(apart);
  return slots[source >= (lane & ~(width - 1)) ? source : lane].template get<T>();
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned apart, int width = 32) {
  int lane = 0;
  const auto* const slots = cuda_emulator::meet_warp("__shfl_down_sync", mask, value, &lane);
  const int source = lane + static_cast<int>(apart);
  return slots[source <= (lane | (width - 1)) ? source : lane].template get<T>();
}

inline unsigned __ballot_sync(unsigned mask, int predicate) {
  int lane = 0;
  const auto* const slots = cuda_emulator::meet_warp("__ballot_sync", mask, predicate, &lane);
  unsigned votes = 0;
  for (int l = 0; l < cuda_emulator::num_lanes_of_warp(); ++l) {
    votes |= (slots[l].get<int>() != 0 ? 1U : 0U) << l;
  }
  return votes;
}
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate == 0) == 0; }
template <class T>
unsigned __match_any_sync(unsigned mask, T value) {
  int lane = 0;
  const auto* const slots = cuda_emulator::meet_warp("__match_any_sync", mask, value, &lane);
  unsigned equal = 0;
  for (int l = 0; l < cuda_emulator::num_lanes_of_warp(); ++l) {
    equal |= (slots[l].template get<T>() == value ? 1U : 0U) << l;
  }
  return equal;
}
#define ATLAS_EMULATED_REDUCTION(name, T, expression)                              \
  inline T name(unsigned mask, T value) {                                          \
    int lane = 0;                                                                  \
    const auto* const slots = cuda_emulator::meet_warp(#name, mask, value, &lane); \
    T a = slots[0].get<T>();                                                       \
    for (int l = 1; l < cuda_emulator::num_lanes_of_warp(); ++l) {                 \
      const T b = slots[l].get<T>();                                               \
      a = (expression);                                                            \
    }                                                                              \
    return a;                                                                      \
  }
ATLAS_EMULATED_REDUCTION(__reduce_add_sync, unsigned, a + b)
ATLAS_EMULATED_REDUCTION(__reduce_add_sync, int, static_cast<int>(unsigned(a) + unsigned(b)))
ATLAS_EMULATED_REDUCTION(__reduce_max_sync, unsigned, std::max(a, b))
ATLAS_EMULATED_REDUCTION(__reduce_max_sync, int, std::max(a, b))
ATLAS_EMULATED_REDUCTION(__reduce_min_sync, unsigned, std::min(a, b))
ATLAS_EMULATED_REDUCTION(__reduce_min_sync, int, std::min(a, b))
ATLAS_EMULATED_REDUCTION(__reduce_or_sync, unsigned, a | b)
ATLAS_EMULATED_REDUCTION(__reduce_and_sync, unsigned, a& b)
#undef ATLAS_EMULATED_REDUCTION

// ---- atomics: threads switch at meeting points only, so plain code is atomic ----

#define ATLAS_EMULATED_ATOMIC(name, T, expression)           \
  inline T name(T* address, std::type_identity_t<T> value) { \
    const T old = *address;                                  \
    *address = (expression);                                 \
    return old;                                              \
  }
#define ATLAS_EMULATED_ATOMICS(T)                                                                   \
  ATLAS_EMULATED_ATOMIC(atomicAdd, T, static_cast<T>(old + value))                                  \
  ATLAS_EMULATED_ATOMIC(atomicMax, T, std::max(old, value))                                         \
  ATLAS_EMULATED_ATOMIC(atomicMin, T, std::min(old, value))                                         \
  ATLAS_EMULATED_ATOMIC(atomicExch, T, value)                                                       \
  ATLAS_EMULATED_ATOMIC(atomicOr, T, old | value)                                                   \
  ATLAS_EMULATED_ATOMIC(atomicAnd, T, old& value)                                                   \
  ATLAS_EMULATED_ATOMIC(atomicXor, T, old ^ value)                                                  \
  inline T atomicCAS(T* address, std::type_identity_t<T> expected, std::type_identity_t<T> value) { \
    const T old = *address;                                                                         \
    if (old == expected) *address = value;                                                          \
    return old;                                                                                     \
  }
ATLAS_EMULATED_ATOMICS(int)
ATLAS_EMULATED_ATOMICS(unsigned)
ATLAS_EMULATED_ATOMICS(unsigned long long)
#undef ATLAS_EMULATED_ATOMICS
#undef ATLAS_EMULATED_ATOMIC
inline int atomicSub(int* address, int value) { return atomicAdd(address, -value); }
inline unsigned atomicSub(unsigned* address, unsigned value) { return atomicAdd(address, 0U - value); }

// ---- loads and stores with a cache hint ----

template <class T>
T __ldg(const T* from) {
  return *from;
}
template <class T>
T __ldcs(const T* from) {
  return *from;
}
template <class T>
T __ldcg(const T* from) {
  return *from;
}
template <class T>
void __stcs(T* to, T value) {
  *to = value;
}
template <class T>
void __stcg(T* to, T value) {
  *to = value;
}

// ---- bits and integers ----

inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }
inline double __longlong_as_double(long long x) { return std::bit_cast<double>(x); }
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __popcll(unsigned long long x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __clzll(long long x) { return std::countl_zero(static_cast<unsigned long long>(x)); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __brev(unsigned x) {
  unsigned reversed = 0;
  for (int i = 0; i < 32; ++i) reversed |= (x >> i & 1U) << (31 - i);
  return reversed;
}
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>((std::uint64_t{a} * b) >> 32);
}
inline int __mulhi(int a, int b) { return static_cast<int>((std::int64_t{a} * b) >> 32); }
__extension__ typedef unsigned __int128 atlas_emulated_uint128;
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>((static_cast<atlas_emulated_uint128>(a) * b) >> 64);
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>(((std::uint64_t{high} << 32 | low) << (shift & 31U)) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((std::uint64_t{high} << 32 | low) >> (shift & 31U));
}
/// Four bytes picked from the eight of b:a; the sign mode of a selector is not emulated.
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selectors) {
  const std::uint64_t both = std::uint64_t{b} << 32 | a;
  unsigned picked = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned selector = selectors >> (4 * i) & 0x7U;
    picked |= static_cast<unsigned>(both >> (8 * selector) & 0xFFU) << (8 * i);
  }
  return picked;
}

// ---- arithmetic; the rest is math.h's ----

inline float rsqrtf(float x) { return 1.0F / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / ::sqrt(x); }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __frcp_rn(float a) { return 1.0F / a; }
inline float __fsqrt_rn(float a) { return sqrtf(a); }
inline float __int2float_rn(int a) { return static_cast<float>(a); }
inline float __uint2float_rn(unsigned a) { return static_cast<float>(a); }
inline float __saturatef(float a) { return a > 0.0F ? fminf(a, 1.0F) : 0.0F; }
/// As the device: saturating, NaN gives 0.
inline int __float2int_rn(float a) {
  if (isnan(a)) return 0;
  return a >= 2147483648.0F ? 2147483647 : a <= -2147483648.0F ? -2147483647 - 1 : static_cast<int>(rintf(a));
}

#define ATLAS_EMULATED_MIN_MAX(T)                  \
  inline T min(T a, T b) { return b < a ? b : a; } \
  inline T max(T a, T b) { return a < b ? b : a; }
ATLAS_EMULATED_MIN_MAX(int)
ATLAS_EMULATED_MIN_MAX(unsigned)
ATLAS_EMULATED_MIN_MAX(long)
ATLAS_EMULATED_MIN_MAX(unsigned long)
ATLAS_EMULATED_MIN_MAX(long long)
ATLAS_EMULATED_MIN_MAX(unsigned long long)
#undef ATLAS_EMULATED_MIN_MAX
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
