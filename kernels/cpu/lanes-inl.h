// Sixteen fp32 lanes in every target: one register on AVX-512, two on AVX2, four on NEON, an array elsewhere.
// Each operation rounds once per lane and `sum` adds lanes in one fixed tree, so a kernel written with these
// gives the same bits on every target.
//
// How an op file uses it (the file is compiled once per target):
//
//   #include "kernels/cpu/cpu_ops.h"
//   #include "kernels/cpu/targets.h"
//   #include "kernels/cpu/tiles.h"
//   #undef HWY_TARGET_INCLUDE
//   #define HWY_TARGET_INCLUDE "kernels/cpu/my_op.cpp"
//   #include "hwy/foreach_target.h"
//   #include "kernels/cpu/lanes-inl.h"
//
//   HWY_BEFORE_NAMESPACE();
//   namespace kernels::cpu {
//   namespace HWY_NAMESPACE {
//   gpu::Status my_op_impl(gpu::HostStream& stream, const MyArgs& args) { … load, fma, sum, parallel_rows … }
//   }  // namespace HWY_NAMESPACE
//   }  // namespace kernels::cpu
//   HWY_AFTER_NAMESPACE();
//
//   #if HWY_ONCE
//   namespace kernels::cpu {
//   HWY_EXPORT(my_op_impl);
//   gpu::Status my_op(gpu::HostStream& stream, const MyArgs& args) { return
//   HWY_DYNAMIC_DISPATCH(my_op_impl)(stream, args); } }  // namespace kernels::cpu #endif
//
// Everything else in such a file (structs, free functions) belongs inside HWY_NAMESPACE too, or inside #if
// HWY_ONCE. Reductions: accumulate in Lanes16 with fma, k ascending, tail by load_first (absent lanes read as
// zero), then sum. Scalars: exp1, sigmoid1, silu1, softplus1 give one value with the same bits in every
// target.

#if defined(KERNELS_CPU_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KERNELS_CPU_LANES_INL_H_
#undef KERNELS_CPU_LANES_INL_H_
#else
#define KERNELS_CPU_LANES_INL_H_
#endif

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "gpu/dtype.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace kernels::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

inline constexpr std::int64_t kLanes = 16;

// One part: a register of the target and the operations on it. Everything below this section is
// target-independent.
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_NEON

using D = hn::CappedTag<float, 16>;
using Part = hn::Vec<D>;
inline constexpr int kPartLanes = static_cast<int>(HWY_LANES(float) < 16 ? HWY_LANES(float) : 16);

HWY_INLINE Part p_splat(float x) { return hn::Set(D(), x); }
HWY_INLINE Part p_add(Part a, Part b) { return hn::Add(a, b); }
HWY_INLINE Part p_sub(Part a, Part b) { return hn::Sub(a, b); }
HWY_INLINE Part p_mul(Part a, Part b) { return hn::Mul(a, b); }
HWY_INLINE Part p_div(Part a, Part b) { return hn::Div(a, b); }
HWY_INLINE Part p_fma(Part a, Part b, Part c) { return hn::MulAdd(a, b, c); }
HWY_INLINE Part p_max(Part a, Part b) { return hn::Max(a, b); }
HWY_INLINE Part p_min(Part a, Part b) { return hn::Min(a, b); }
HWY_INLINE Part p_sqrt(Part a) { return hn::Sqrt(a); }
HWY_INLINE Part p_keep_nan(Part result, Part x) { return hn::IfThenElse(hn::Eq(x, x), result, x); }
HWY_INLINE Part p_load(const float* p) { return hn::LoadU(D(), p); }
HWY_INLINE Part p_load(const gpu::bf16* p) {
  const hn::Rebind<std::uint16_t, D> d16;
  const hn::RebindToUnsigned<D> d32;
  return hn::BitCast(D(), hn::ShiftLeft<16>(hn::PromoteTo(d32, hn::LoadU(d16, &p->bits))));
}
HWY_INLINE Part p_load(const gpu::f16* p) {
  const hn::Rebind<std::uint16_t, D> d16;
  const hn::Rebind<hwy::float16_t, D> df16;
  return hn::PromoteTo(D(), hn::BitCast(df16, hn::LoadU(d16, &p->bits)));
}
HWY_INLINE void p_store(Part a, float* p) { hn::StoreU(a, D(), p); }
/// 2^n for the integer n = bits(t) - bits(origin), -126 <= n/2 and n - n/2 <= 127, as two factors.
HWY_INLINE Part p_scale_by_power(Part x, Part t, float origin) {
  const hn::RebindToSigned<D> di;
  const auto n = hn::Sub(hn::BitCast(di, t), hn::BitCast(di, p_splat(origin)));
  const auto half = hn::ShiftRight<1>(n);
  const auto bias = hn::Set(di, 127);
  const auto power = [&](auto e) HWY_ATTR { return hn::BitCast(D(), hn::ShiftLeft<23>(hn::Add(e, bias))); };
  return p_mul(p_mul(x, power(half)), power(hn::Sub(n, half)));
}

#else

using Part = float;
inline constexpr int kPartLanes = 1;

HWY_INLINE Part p_splat(float x) { return x; }
HWY_INLINE Part p_add(Part a, Part b) { return a + b; }
HWY_INLINE Part p_sub(Part a, Part b) { return a - b; }
HWY_INLINE Part p_mul(Part a, Part b) { return a * b; }
HWY_INLINE Part p_div(Part a, Part b) { return a / b; }
HWY_INLINE Part p_fma(Part a, Part b, Part c) { return std::fma(a, b, c); }
HWY_INLINE Part p_max(Part a, Part b) { return a > b ? a : b; }
HWY_INLINE Part p_min(Part a, Part b) { return a < b ? a : b; }
HWY_INLINE Part p_sqrt(Part a) { return std::sqrt(a); }
HWY_INLINE Part p_keep_nan(Part result, Part x) { return x == x ? result : x; }
HWY_INLINE Part p_load(const float* p) { return *p; }
HWY_INLINE Part p_load(const gpu::bf16* p) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(p->bits) << 16);
}
HWY_INLINE Part p_load(const gpu::f16* p) {
  // Multiplying by 2^112 moves the exponent's bias exactly and makes subnormals normal.
  const std::uint32_t sign = (p->bits & 0x8000U) << 16;
  const std::uint32_t magnitude = (p->bits & 0x7FFFU) << 13;
  if (magnitude >= 0x0F800000U)
    return std::bit_cast<float>(sign | 0x70000000U | magnitude);  // infinity and NaN
  return std::bit_cast<float>(sign |
                              std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112F));
}
HWY_INLINE void p_store(Part a, float* p) { *p = a; }
HWY_INLINE Part p_scale_by_power(Part x, Part t, float origin) {
  const std::int32_t n = std::bit_cast<std::int32_t>(t) - std::bit_cast<std::int32_t>(origin);
  const std::int32_t half = n >> 1;
  const auto power = [](std::int32_t e) { return std::bit_cast<float>((e + 127) << 23); };
  return x * power(half) * power(n - half);
}

#endif

inline constexpr int kParts = 16 / kPartLanes;

struct Lanes16 {
  Part part[kParts];
};

/// Lanes16 of f(0) … f(kParts-1).
template <class F>
HWY_INLINE Lanes16 each_part(F f) {
  if constexpr (kParts == 1) {
    return {{f(0)}};
  } else if constexpr (kParts == 2) {
    return {{f(0), f(1)}};
  } else if constexpr (kParts == 4) {
    return {{f(0), f(1), f(2), f(3)}};
  } else {
    Lanes16 all;
    for (int i = 0; i < kParts; ++i) all.part[i] = f(i);
    return all;
  }
}

HWY_INLINE Lanes16 splat(float x) {
  const Part p = p_splat(x);
  return each_part([&](int) HWY_ATTR { return p; });
}
HWY_INLINE Lanes16 zero() { return splat(0.0F); }
HWY_INLINE Lanes16 add(Lanes16 a, Lanes16 b) {
  return each_part([&](int i) HWY_ATTR { return p_add(a.part[i], b.part[i]); });
}
HWY_INLINE Lanes16 sub(Lanes16 a, Lanes16 b) {
  return each_part([&](int i) HWY_ATTR { return p_sub(a.part[i], b.part[i]); });
}
HWY_INLINE Lanes16 mul(Lanes16 a, Lanes16 b) {
  return each_part([&](int i) HWY_ATTR { return p_mul(a.part[i], b.part[i]); });
}
HWY_INLINE Lanes16 div(Lanes16 a, Lanes16 b) {
  return each_part([&](int i) HWY_ATTR { return p_div(a.part[i], b.part[i]); });
}
/// a * b + c, rounded once.
HWY_INLINE Lanes16 fma(Lanes16 a, Lanes16 b, Lanes16 c) {
  return each_part([&](int i) HWY_ATTR { return p_fma(a.part[i], b.part[i], c.part[i]); });
}
/// The larger; which of two is unspecified when one is NaN.
HWY_INLINE Lanes16 max(Lanes16 a, Lanes16 b) {
  return each_part([&](int i) HWY_ATTR { return p_max(a.part[i], b.part[i]); });
}
HWY_INLINE Lanes16 min(Lanes16 a, Lanes16 b) {
  return each_part([&](int i) HWY_ATTR { return p_min(a.part[i], b.part[i]); });
}
HWY_INLINE Lanes16 sqrt(Lanes16 a) {
  return each_part([&](int i) HWY_ATTR { return p_sqrt(a.part[i]); });
}
/// Lanes of x where x is NaN, else of result.
HWY_INLINE Lanes16 keep_nan(Lanes16 result, Lanes16 x) {
  return each_part([&](int i) HWY_ATTR { return p_keep_nan(result.part[i], x.part[i]); });
}

/// Sixteen values from any address; f16 and bf16 are widened exactly.
template <class T>
HWY_INLINE Lanes16 load(const T* p) {
  return each_part([&](int i) HWY_ATTR { return p_load(p + i * kPartLanes); });
}
HWY_INLINE void store(Lanes16 a, float* p) {
  for (int i = 0; i < kParts; ++i) p_store(a.part[i], p + i * kPartLanes);
}
/// The first n (0 … 16) values; the other lanes are zero and their memory is not read.
template <class T>
HWY_INLINE Lanes16 load_first(const T* p, std::int64_t n) {
  alignas(64) T values[16] = {};
  std::memcpy(values, p, static_cast<std::size_t>(n) * sizeof(T));
  return load(values);
}
HWY_INLINE void store_first(Lanes16 a, float* p, std::int64_t n) {
  alignas(64) float values[16];
  store(a, values);
  std::memcpy(p, values, static_cast<std::size_t>(n) * sizeof(float));
}

/// What for_lanes hands to its body: loads and stores of sixteen values, or of the last n of a row.
struct WholeLanes {
  template <class T>
  HWY_INLINE Lanes16 load(const T* p) const {
    return HWY_NAMESPACE::load(p);
  }
  HWY_INLINE void store(Lanes16 a, float* p) const { HWY_NAMESPACE::store(a, p); }
};
struct FirstLanes {
  std::int64_t n;
  template <class T>
  HWY_INLINE Lanes16 load(const T* p) const {
    return load_first(p, n);
  }
  HWY_INLINE void store(Lanes16 a, float* p) const { store_first(a, p, n); }
};
/// body(at, i) for i = 0, 16, … < n: `at.load(x + i)`, `at.store(value, y + i)`. Absent lanes load as zero
/// and are not stored.
template <class Body>
HWY_INLINE void for_lanes(std::int64_t n, Body body) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body(WholeLanes(), i);
  if (i < n) body(FirstLanes{n - i}, i);
}

// The combine tree: lanes i and i+8, then i and i+4, i and i+2, i and i+1.
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_NEON
template <std::size_t kN, class V, class Combine>
HWY_INLINE float combine_register(hn::Simd<float, kN, 0> d, V v, Combine combine) {
  if constexpr (kN == 4) {
    v = combine(v, hn::Shuffle1032(v));
    return hn::GetLane(combine(v, hn::Shuffle2301(v)));
  } else {
    const hn::Half<decltype(d)> half;
    return combine_register(half, combine(hn::LowerHalf(half, v), hn::UpperHalf(half, v)), combine);
  }
}
template <class Combine>
HWY_INLINE float combine_lanes(const Lanes16& a, Combine combine) {
  if constexpr (kParts == 1) {
    return combine_register(D(), a.part[0], combine);
  } else if constexpr (kParts == 2) {
    return combine_register(D(), combine(a.part[0], a.part[1]), combine);
  } else {
    return combine_register(D(), combine(combine(a.part[0], a.part[2]), combine(a.part[1], a.part[3])),
                            combine);
  }
}
#else
template <class Combine>
HWY_INLINE float combine_lanes(Lanes16 a, Combine combine) {
  for (int width = 8; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) a.part[i] = combine(a.part[i], a.part[i + width]);
  }
  return a.part[0];
}
#endif

HWY_INLINE float sum(Lanes16 a) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_NEON
  return combine_lanes(a, [](auto x, auto y) HWY_ATTR { return hn::Add(x, y); });
#else
  return combine_lanes(a, [](float x, float y) { return x + y; });
#endif
}
HWY_INLINE float max_lane(Lanes16 a) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_NEON
  return combine_lanes(a, [](auto x, auto y) HWY_ATTR { return hn::Max(x, y); });
#else
  return combine_lanes(a, [](float x, float y) { return p_max(x, y); });
#endif
}

/// e^x within 2 units in the last place; 0 below -104, infinity above 88.73, NaN for NaN.
HWY_INLINE Part p_exp(Part x) {
  constexpr float kOrigin = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer, kept in the low bits
  const Part clamped = p_min(p_max(x, p_splat(-104.5F)), p_splat(89.0F));
  const Part t = p_fma(clamped, p_splat(1.44269504F), p_splat(kOrigin));
  const Part n = p_sub(t, p_splat(kOrigin));
  const Part r = p_fma(n, p_splat(2.12194440e-4F),
                       p_fma(n, p_splat(-0.693359375F), clamped));  // x - n ln 2, |r| <= ln 2 / 2
  Part q = p_splat(1.0F / 5040.0F);
  q = p_fma(q, r, p_splat(1.0F / 720.0F));
  q = p_fma(q, r, p_splat(1.0F / 120.0F));
  q = p_fma(q, r, p_splat(1.0F / 24.0F));
  q = p_fma(q, r, p_splat(1.0F / 6.0F));
  q = p_fma(q, r, p_splat(0.5F));
  const Part e = p_add(p_fma(q, p_mul(r, r), r), p_splat(1.0F));
  return p_keep_nan(p_scale_by_power(e, t, kOrigin), x);
}
HWY_INLINE Part p_one_plus_exp_minus(Part x) { return p_add(p_splat(1.0F), p_exp(p_sub(p_splat(0.0F), x))); }

HWY_INLINE Lanes16 exp(Lanes16 a) {
  return each_part([&](int i) HWY_ATTR { return p_exp(a.part[i]); });
}
HWY_INLINE Lanes16 sigmoid(Lanes16 a) {
  return each_part([&](int i) HWY_ATTR { return p_div(p_splat(1.0F), p_one_plus_exp_minus(a.part[i])); });
}
HWY_INLINE Lanes16 silu(Lanes16 a) {
  return each_part([&](int i) HWY_ATTR { return p_div(a.part[i], p_one_plus_exp_minus(a.part[i])); });
}

HWY_INLINE float first_lane(Part a) {
  float values[kPartLanes];
  p_store(a, values);
  return values[0];
}
HWY_INLINE float exp1(float x) { return first_lane(p_exp(p_splat(x))); }
HWY_INLINE float sigmoid1(float x) {
  return first_lane(p_div(p_splat(1.0F), p_one_plus_exp_minus(p_splat(x))));
}
HWY_INLINE float silu1(float x) { return first_lane(p_div(p_splat(x), p_one_plus_exp_minus(p_splat(x)))); }
/// The C library's functions, the same code whatever the target.
inline float softplus1(float x) { return x > 20.0F ? x : std::log1p(std::exp(x)); }
HWY_INLINE float rsqrt1(float x) { return 1.0F / std::sqrt(x); }

/// sum_k x[k] * w[k]: sixteen lanes of fma over k ascending, then `sum`. The one reduction of GEMV, GEMM and
/// every other dot product.
template <class T>
HWY_INLINE float dot(const float* x, const T* w, std::int64_t k) {
  Lanes16 acc = zero();
  std::int64_t i = 0;
  for (; i + kLanes <= k; i += kLanes) acc = fma(load(x + i), load(w + i), acc);
  if (i < k) acc = fma(load_first(x + i, k - i), load_first(w + i, k - i), acc);
  return sum(acc);
}
/// sum_i x[i]^2, the same way.
HWY_INLINE float sum_of_squares(const float* x, std::int64_t n) {
  Lanes16 acc = zero();
  for_lanes(n, [&](auto at, std::int64_t i) HWY_ATTR {
    const Lanes16 v = at.load(x + i);
    acc = fma(v, v, acc);
  });
  return sum(acc);
}
/// y[i] += a * x[i] for i < n (a fused multiply-add each).
template <class T>
HWY_INLINE void add_scaled(float a, const T* x, float* y, std::int64_t n) {
  const Lanes16 factor = splat(a);
  for_lanes(n, [&](auto at, std::int64_t i)
                   HWY_ATTR { at.store(fma(factor, at.load(x + i), at.load(y + i)), y + i); });
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // toggled include guard
