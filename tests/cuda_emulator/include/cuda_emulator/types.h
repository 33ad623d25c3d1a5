#pragma once

#include <cstddef>
#include <cstdint>

/// CUDA's qualifiers and built-in types, for a plain C++ compiler. Names are the toolkit's.

#define __global__
#define __device__
#define __host__
#define __constant__
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __restrict__ __restrict
#define __align__(n) alignas(n)
// Blocks run one after another, so one copy is every block's own. Thread-local, because that puts all of a
// module's in one place, where they can be poisoned (static_shared.h).
#define __shared__ static thread_local
#define __grid_constant__

#define ATLAS_EMULATED_VECTORS(name, T, align2, align4)                 \
  struct alignas(align2) name##2 {                                      \
    T x, y;                                                             \
  };                                                                    \
  struct name##3 {                                                      \
    T x, y, z;                                                          \
  };                                                                    \
  struct alignas(align4) name##4 {                                      \
    T x, y, z, w;                                                       \
  };                                                                    \
  constexpr name##2 make_##name##2(T x, T y) { return {x, y}; }         \
  constexpr name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; } \
  constexpr name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
ATLAS_EMULATED_VECTORS(char, signed char, 2, 4)
ATLAS_EMULATED_VECTORS(uchar, unsigned char, 2, 4)
ATLAS_EMULATED_VECTORS(short, short, 4, 8)
ATLAS_EMULATED_VECTORS(ushort, unsigned short, 4, 8)
ATLAS_EMULATED_VECTORS(int, int, 8, 16)
ATLAS_EMULATED_VECTORS(uint, unsigned, 8, 16)
ATLAS_EMULATED_VECTORS(longlong, long long, 16, 16)
ATLAS_EMULATED_VECTORS(ulonglong, unsigned long long, 16, 16)
ATLAS_EMULATED_VECTORS(float, float, 8, 16)
ATLAS_EMULATED_VECTORS(double, double, 16, 16)
#undef ATLAS_EMULATED_VECTORS

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

/// Of the thread that runs now.
extern uint3 threadIdx;
extern uint3 blockIdx;
extern dim3 blockDim;
extern dim3 gridDim;
inline constexpr int warpSize = 32;
