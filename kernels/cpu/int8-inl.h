// Integer lanes and the exact product of four unsigned weights with four int8 activations, the same in every
// target: a part is as many 32-bit lanes as a Part of lanes-inl.h has floats, a lane is a row of the weight's
// tile. Sums within a block of 32 are exact, so the instructions may differ and the bits cannot.

#if defined(KERNELS_CPU_INT8_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KERNELS_CPU_INT8_INL_H_
#undef KERNELS_CPU_INT8_INL_H_
#else
#define KERNELS_CPU_INT8_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include "kernels/cpu/lanes-inl.h"
#include "kernels/cpu/quantized_rows.h"
#include "kernels/widen.h"

#if HWY_ARCH_X86
#include <immintrin.h>
#endif

HWY_BEFORE_NAMESPACE();
namespace kernels::cpu {
namespace HWY_NAMESPACE {

/// Four activations as they lie in memory.
HWY_INLINE std::uint32_t four_at(const std::int8_t* x) {
  std::uint32_t four;
  std::memcpy(&four, x, sizeof four);
  return four;
}

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_NEON

using DI = hn::RebindToSigned<D>;
using DU = hn::RebindToUnsigned<D>;
using Ints = hn::Vec<DI>;   ///< sums, one a lane
using Fours = hn::Vec<DU>;  ///< four bytes a lane

HWY_INLINE Ints i_splat(std::int32_t x) { return hn::Set(DI(), x); }
HWY_INLINE Ints i_add(Ints a, Ints b) { return hn::Add(a, b); }
HWY_INLINE Ints i_mul(Ints a, Ints b) { return hn::Mul(a, b); }
template <int kBits>
HWY_INLINE Ints i_shift_left(Ints a) {
  return hn::ShiftLeft<kBits>(a);
}
HWY_INLINE Part i_to_float(Ints a) { return hn::ConvertTo(D(), a); }

HWY_INLINE Fours f_load(const std::byte* p) {
  return hn::LoadU(DU(), reinterpret_cast<const std::uint32_t*>(p));
}
HWY_INLINE Fours f_splat(std::uint32_t x) { return hn::Set(DU(), x); }
HWY_INLINE Fours f_and(Fours a, Fours b) { return hn::And(a, b); }
HWY_INLINE Fours f_or(Fours a, Fours b) { return hn::Or(a, b); }
/// Bits move right by kBits, left when it is negative.
template <int kBits>
HWY_INLINE Fours f_shift_right(Fours a) {
  if constexpr (kBits >= 0) {
    return hn::ShiftRight<kBits>(a);
  } else {
    return hn::ShiftLeft<-kBits>(a);
  }
}

/// A byte a lane.
HWY_INLINE Part p_load_u8(const std::byte* p) {
  const hn::Rebind<std::uint8_t, D> d8;
  return hn::ConvertTo(D(), hn::PromoteTo(DI(), hn::LoadU(d8, reinterpret_cast<const std::uint8_t*>(p))));
}
HWY_INLINE Ints i_load_i8(const std::byte* p) {
  const hn::Rebind<std::int8_t, D> d8;
  return hn::PromoteTo(DI(), hn::LoadU(d8, reinterpret_cast<const std::int8_t*>(p)));
}
/// Whole numbers from -127 to 127.
HWY_INLINE void p_store_i8(Part a, std::int8_t* p) {
  const hn::Rebind<std::int8_t, D> d8;
  hn::StoreU(hn::DemoteTo(d8, hn::ConvertTo(DI(), a)), d8, p);
}

#else

using Ints = std::int32_t;
using Fours = std::uint32_t;

HWY_INLINE Ints i_splat(std::int32_t x) { return x; }
HWY_INLINE Ints i_add(Ints a, Ints b) { return a + b; }
HWY_INLINE Ints i_mul(Ints a, Ints b) { return a * b; }
template <int kBits>
HWY_INLINE Ints i_shift_left(Ints a) {
  return a * (1 << kBits);
}
HWY_INLINE Part i_to_float(Ints a) { return static_cast<float>(a); }

HWY_INLINE Fours f_load(const std::byte* p) {
  Fours four;
  std::memcpy(&four, p, sizeof four);
  return four;
}
HWY_INLINE Fours f_splat(std::uint32_t x) { return x; }
HWY_INLINE Fours f_and(Fours a, Fours b) { return a & b; }
HWY_INLINE Fours f_or(Fours a, Fours b) { return a | b; }
template <int kBits>
HWY_INLINE Fours f_shift_right(Fours a) {
  if constexpr (kBits >= 0) {
    return a >> kBits;
  } else {
    return a << -kBits;
  }
}

HWY_INLINE Part p_load_u8(const std::byte* p) { return static_cast<float>(static_cast<std::uint8_t>(*p)); }
HWY_INLINE Ints i_load_i8(const std::byte* p) { return static_cast<std::int8_t>(*p); }
HWY_INLINE void p_store_i8(Part a, std::int8_t* p) { *p = static_cast<std::int8_t>(a); }

#endif

/// sums + weight byte i * activation i, i = 0 … 3, in each lane. The weights are unsigned numbers of kBits
/// bits; those of 8 bits are 128 above the signed number, and where kSigned8 holds the product is the signed
/// number's (its instructions know no unsigned 8 bits): the caller then leaves out the correction.
#if HWY_TARGET == HWY_AVX3_DL
inline constexpr bool kSigned8 = false;
template <int kBits>
HWY_INLINE Ints dot4(Ints sums, Fours weights, const std::int8_t* x) {
  // This Highway compiles the target without the attribute of the instruction (processors of this target have
  // it), so its intrinsic cannot be inlined here.
  asm("vpdpbusd %2%{1to16%}, %1, %0"
      : "+v"(sums.raw)
      : "v"(weights.raw), "m"(*reinterpret_cast<const char(*)[4]>(x)));
  return sums;
}

#elif HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
inline constexpr bool kSigned8 = true;
template <int kBits>
HWY_INLINE Ints dot4(Ints sums, Fours weights, const std::int8_t* x) {
  const Fours four = f_splat(four_at(x));
#if HWY_TARGET == HWY_AVX3
  const __m512i ones = _mm512_set1_epi16(1);
  if constexpr (kBits == 8) {
    // Pairs add to at most 2 * 128 * 127, which 16 bits hold.
    const __m512i w = _mm512_xor_si512(weights.raw, _mm512_set1_epi8(-128));
    const __m512i signed_x =
        _mm512_mask_sub_epi8(four.raw, _mm512_movepi8_mask(w), _mm512_setzero_si512(), four.raw);
    const __m512i pairs = _mm512_maddubs_epi16(_mm512_abs_epi8(w), signed_x);
    return i_add(sums, Ints{_mm512_madd_epi16(pairs, ones)});
  } else {
    return i_add(sums, Ints{_mm512_madd_epi16(_mm512_maddubs_epi16(weights.raw, four.raw), ones)});
  }
#else
  const __m256i ones = _mm256_set1_epi16(1);
  if constexpr (kBits == 8) {
    const __m256i w = _mm256_xor_si256(weights.raw, _mm256_set1_epi8(-128));
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(four.raw, w));
    return i_add(sums, Ints{_mm256_madd_epi16(pairs, ones)});
  } else {
    return i_add(sums, Ints{_mm256_madd_epi16(_mm256_maddubs_epi16(weights.raw, four.raw), ones)});
  }
#endif
}

#elif HWY_TARGET == HWY_NEON
inline constexpr bool kSigned8 = false;
template <int kBits>
HWY_INLINE Ints dot4(Ints sums, Fours weights, const std::int8_t* x) {
  // Products of single bytes fit into 16 bits; their two halves of a lane are then added as 32 bits.
  const hn::Repartition<std::int16_t, D> d16;
  const auto w = hn::BitCast(d16, weights);
  const auto four = hn::BitCast(d16, f_splat(four_at(x)));
  const auto low_bytes = hn::Set(d16, std::int16_t{255});
  const hn::RebindToUnsigned<decltype(d16)> du16;
  const auto even = hn::Mul(hn::And(w, low_bytes), hn::ShiftRight<8>(hn::ShiftLeft<8>(four)));
  const auto odd =
      hn::Mul(hn::BitCast(d16, hn::ShiftRight<8>(hn::BitCast(du16, w))), hn::ShiftRight<8>(four));
  const auto both_halves = [](auto products) HWY_ATTR {
    const Ints lanes = hn::BitCast(DI(), products);
    return hn::Add(hn::ShiftRight<16>(hn::ShiftLeft<16>(lanes)), hn::ShiftRight<16>(lanes));
  };
  return i_add(sums, i_add(both_halves(even), both_halves(odd)));
}

#else
inline constexpr bool kSigned8 = false;
template <int kBits>
HWY_INLINE Ints dot4(Ints sums, Fours weights, const std::int8_t* x) {
  for (int i = 0; i < 4; ++i) sums += static_cast<Ints>(weights >> 8 * i & 255) * x[i];
  return sums;
}
#endif

/// Zero, or NaN when a value is not finite.
HWY_INLINE float zero_if_finite(const float* x, std::int64_t k) {
  Lanes16 acc = zero();
  for_lanes(k, [&](auto at, std::int64_t i) HWY_ATTR { acc = fma(at.load(x + i), zero(), acc); });
  return sum(acc);
}

/// Rounds a row to int8: scale = largest magnitude / 127, values to the nearest (ties to even) of x * (127 /
/// largest). A block of (almost) zeros is zeros; a row with a value that is not finite has scales that are
/// not, so its products are not.
inline void quantize_row(const float* x, std::int64_t k, std::int8_t* values, BlockFacts* blocks) {
  constexpr float kOrigin = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
  constexpr float kNothing = 1e-30F;      // below it 127 / largest would overflow
  const std::int64_t num_blocks = k / kQuantBlock;
  if (const float finite = zero_if_finite(x, k); finite != 0.0F) {
    std::memset(values, 0, static_cast<std::size_t>(k));
    for (std::int64_t b = 0; b < num_blocks; ++b) blocks[b] = {finite, finite, 0, 0};
    return;
  }
  const Lanes16 origin = splat(kOrigin);
  for (std::int64_t b = 0; b < num_blocks; ++b) {
    const Lanes16 first = load(x + b * kQuantBlock), second = load(x + b * kQuantBlock + 16);
    const float largest = max_lane(max(max(first, sub(zero(), first)), max(second, sub(zero(), second))));
    const bool nothing = largest < kNothing;
    const Lanes16 factor = splat(nothing ? 0.0F : 127.0F / largest);
    const Lanes16 rounded_first = sub(add(mul(first, factor), origin), origin);
    const Lanes16 rounded_second = sub(add(mul(second, factor), origin), origin);
    for (int i = 0; i < kParts; ++i) {
      p_store_i8(rounded_first.part[i], values + b * kQuantBlock + i * kPartLanes);
      p_store_i8(rounded_second.part[i], values + b * kQuantBlock + 16 + i * kPartLanes);
    }
    const float scale = nothing ? 0.0F : largest / 127.0F;
    const float all = sum(add(rounded_first, rounded_second));
    blocks[b] = {scale, scale * all, static_cast<std::int32_t>(-8.0F * all),
                 static_cast<std::int32_t>(-8.0F * sum(rounded_first))};
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // toggled include guard
