// Products of int8 rows with packed quantised weights (packed_layout.h). A value is, over the blocks of 32 k
// ascending:
//
//   y = fma(float(sum of products), d_weight * d_row, y)
//   y = fma(offset, scaled sum of the row's values, y)     in formats with an offset
//
// where the sum is exact and of signed numbers (unsigned ones and a correction from the row's sum), d_weight
// holds the small scale of the block, and q6_k's two small scales multiply the exact sums of their sixteens.
// So a value depends on its operands alone, whatever tile made it.

// The one file that gains from the instruction set with VNNI.
#define HWY_WANT_AVX3_DL

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/quantized_rows.h"
#include "kernels/cpu/targets.h"
#include "kernels/cpu/tiles.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/product.cpp"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "kernels/cpu/int8-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kernels::cpu {
namespace HWY_NAMESPACE {

/// Rows of x that share one unpacking of a tile: what their sums leave free of the registers.
inline constexpr int kProductRows = kParts == 1 ? 8 : kParts == 16 ? 2 : 4;
/// How far ahead of its use a weight is asked for when few rows share it.
inline constexpr std::int64_t kAheadBytes = 2048;

/// Quad j of a block, from this part's bytes of its lines.
template <int kBits, int kQuad>
HWY_INLINE Fours quad(const std::byte* lines) {
  if constexpr (kBits == 8) {
    return f_load(lines + 64 * kQuad);
  } else {
    const Fours nibbles =
        f_and(f_shift_right<kQuad / 4 * 4>(f_load(lines + 64 * (kQuad % 4))), f_splat(0x0F0F0F0FU));
    if constexpr (kBits == 5) {
      const Fours bit = f_and(f_shift_right<kQuad - 4>(f_load(lines + 256)), f_splat(0x10101010U));
      return f_or(nibbles, bit);
    } else if constexpr (kBits == 6) {
      const Fours bits = f_and(f_shift_right<2 * (kQuad % 4) - 4>(f_load(lines + 256 + 64 * (kQuad / 4))),
                               f_splat(0x30303030U));
      return f_or(nibbles, bits);
    } else {
      return nibbles;
    }
  }
}

/// sums[r] += quads kFirst … kLast - 1 times the row's values.
template <int kBits, int kFirst, int kLast, int kRows>
HWY_INLINE void add_quads(Ints (&sums)[kRows], const std::byte* lines, const std::int8_t* const (&x)[kRows]) {
  if constexpr (kFirst < kLast) {
    const Fours w = quad<kBits, kFirst>(lines);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) sums[r] = dot4<kBits>(sums[r], w, x[r] + 4 * kFirst);
    add_quads<kBits, kFirst + 1, kLast, kRows>(sums, lines, x);
  }
}

/// What a block's sum starts from, so that it ends as the sum of signed products: -bias * sum of the values.
template <QuantFormat kFormat>
HWY_INLINE Ints correction(std::int32_t minus_8_sum) {
  constexpr int kBias = packed_shape(kFormat).bias;
  if constexpr (kBias == 0 || (kBias == 128 && kSigned8)) {
    return i_splat(0);
  } else {
    constexpr int kShift = kBias == 8 ? 0 : kBias == 16 ? 1 : kBias == 32 ? 2 : 4;
    return i_shift_left<kShift>(i_splat(minus_8_sum));
  }
}

/// y[r][column + lanes of the part] = the values of kRows rows with a part of a tile.
template <QuantFormat kFormat, int kRows>
HWY_INLINE void tile_part(const QuantizedRow* x, const std::byte* tile, std::int64_t num_groups, int part,
                          float* const* y, std::int64_t column) {
  constexpr PackedShape kShape = packed_shape(kFormat);
  constexpr bool kTwoScales = kFormat == QuantFormat::q6_k;
  const int lane = part * kPartLanes;
  Part acc[kRows];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) acc[r] = p_splat(0.0F);
  std::int64_t block = 0;
  for (std::int64_t g = 0; g < num_groups; ++g) {
    const std::byte* group = tile + g * kShape.group_bytes();
    const Part d = p_load(reinterpret_cast<const gpu::f16*>(group) + lane);
    const Part m = kShape.has_minimum ? p_load(reinterpret_cast<const gpu::f16*>(group + 32) + lane) : d;
    for (int b = 0; b < kShape.blocks; ++b, ++block) {
      const std::byte* lines = group + kShape.lines_at() + b * kShape.line_bytes();
      for (std::int64_t at = 0; at < kShape.line_bytes(); at += 64) hwy::Prefetch(lines + kAheadBytes + at);
      if (kShape.blocks == 1) hwy::Prefetch(lines + kAheadBytes + kShape.line_bytes());
      const std::byte* small = group + kShape.small_scales_at() + b * 16 * kShape.small_scales + lane;
      const std::int8_t* values[kRows];
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) values[r] = x[r].values + block * kQuantBlock;
      Ints sums[kRows];
      if constexpr (kTwoScales) {
        const Ints scales[2] = {i_load_i8(small), i_load_i8(small + 16)};
        Ints second[kRows];
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r) {
          const BlockFacts& facts = x[r].blocks[block];
          sums[r] = correction<kFormat>(facts.minus_8_first);
          second[r] = correction<kFormat>(facts.minus_8_sum - facts.minus_8_first);
        }
        add_quads<kShape.bits, 0, 4, kRows>(sums, lines + 4 * lane, values);
        add_quads<kShape.bits, 4, 8, kRows>(second, lines + 4 * lane, values);
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r) {
          sums[r] = i_add(i_mul(sums[r], scales[0]), i_mul(second[r], scales[1]));
        }
      } else {
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r) sums[r] = correction<kFormat>(x[r].blocks[block].minus_8_sum);
        add_quads<kShape.bits, 0, 8, kRows>(sums, lines + 4 * lane, values);
      }
      Part scale = d, offset = m;
      if constexpr (kShape.small_scales > 0 && !kTwoScales) {
        scale = p_mul(d, p_load_u8(small));
        offset = p_sub(p_splat(0.0F), p_mul(m, p_load_u8(small + 16)));
      }
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const BlockFacts& facts = x[r].blocks[block];
        acc[r] = p_fma(i_to_float(sums[r]), p_mul(scale, p_splat(facts.scale)), acc[r]);
        if constexpr (kShape.has_minimum) acc[r] = p_fma(offset, p_splat(facts.scaled_sum), acc[r]);
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) p_store(acc[r], y[r] + column + lane);
}

template <QuantFormat kFormat, int kRows>
HWY_NOINLINE void tile_rows(const QuantizedRow* x, const std::byte* tile, std::int64_t num_groups,
                            float* const* y, std::int64_t column) {
  for (int part = 0; part < kParts; ++part) {
    tile_part<kFormat, kRows>(x, tile, num_groups, part, y, column);
  }
}

/// y[r][column …] of all sixteen columns of a tile.
template <QuantFormat kFormat>
HWY_INLINE void whole_tile(const QuantizedRow* x, std::int64_t rows, const std::byte* tile,
                           std::int64_t num_groups, float* const* y, std::int64_t column) {
  std::int64_t r = 0;
  for (; r + kProductRows <= rows; r += kProductRows) {
    tile_rows<kFormat, kProductRows>(x + r, tile, num_groups, y + r, column);
  }
  if constexpr (kProductRows > 4) {
    if (r + 4 <= rows) {
      tile_rows<kFormat, 4>(x + r, tile, num_groups, y + r, column);
      r += 4;
    }
  }
  if constexpr (kProductRows > 2) {
    if (r + 2 <= rows) {
      tile_rows<kFormat, 2>(x + r, tile, num_groups, y + r, column);
      r += 2;
    }
  }
  if (r < rows) tile_rows<kFormat, 1>(x + r, tile, num_groups, y + r, column);
}

template <QuantFormat kFormat>
void format_product(const QuantizedRow* x, float* const* y, std::int64_t rows, const QuantizedMatrix& w,
                    std::int64_t first, std::int64_t last, std::int64_t shift) {
  constexpr std::int64_t kWidth = kTileRowsPacked;
  const std::int64_t tile_bytes = packed_tile_bytes(kFormat, w.cols.n);
  const std::int64_t num_groups = w.cols.n / (kQuantBlock * packed_shape(kFormat).blocks);
  for (std::int64_t t = first / kWidth; t * kWidth < last; ++t) {
    const std::byte* tile = w.base + t * tile_bytes;
    const std::int64_t begin = std::max(first, t * kWidth), end = std::min(last, (t + 1) * kWidth);
    if (end - begin == kWidth) {
      whole_tile<kFormat>(x, rows, tile, num_groups, y, begin - shift);
      continue;
    }
    // A part of a tile: at the weight's end, or where one expert's rows meet the next one's.
    constexpr std::int64_t kAtOnce = 8;
    for (std::int64_t r = 0; r < rows; r += kAtOnce) {
      alignas(64) float whole[kAtOnce][kWidth];
      float* places[kAtOnce];
      for (std::int64_t i = 0; i < kAtOnce; ++i) places[i] = whole[i];
      const std::int64_t n = std::min(kAtOnce, rows - r);
      whole_tile<kFormat>(x + r, n, tile, num_groups, places, 0);
      for (std::int64_t i = 0; i < n; ++i) {
        std::memcpy(y[r + i] + begin - shift, whole[i] + (begin - t * kWidth),
                    static_cast<std::size_t>(end - begin) * sizeof(float));
      }
    }
  }
}

void product_rows_impl(const QuantizedRow* x, float* const* y, std::int64_t rows, const QuantizedMatrix& w,
                       std::int64_t first, std::int64_t last, std::int64_t shift) {
  switch (w.format) {
    case QuantFormat::q4_0:
      return format_product<QuantFormat::q4_0>(x, y, rows, w, first, last, shift);
    case QuantFormat::q4_1:
      return format_product<QuantFormat::q4_1>(x, y, rows, w, first, last, shift);
    case QuantFormat::q5_0:
      return format_product<QuantFormat::q5_0>(x, y, rows, w, first, last, shift);
    case QuantFormat::q5_1:
      return format_product<QuantFormat::q5_1>(x, y, rows, w, first, last, shift);
    case QuantFormat::q8_0:
      return format_product<QuantFormat::q8_0>(x, y, rows, w, first, last, shift);
    case QuantFormat::q4_k:
      return format_product<QuantFormat::q4_k>(x, y, rows, w, first, last, shift);
    case QuantFormat::q5_k:
      return format_product<QuantFormat::q5_k>(x, y, rows, w, first, last, shift);
    case QuantFormat::q6_k:
      return format_product<QuantFormat::q6_k>(x, y, rows, w, first, last, shift);
  }
}

void quantize_row_impl(const float* x, std::int64_t k, std::int8_t* values, BlockFacts* blocks) {
  quantize_row(x, k, values, blocks);
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kernels::cpu {
HWY_EXPORT(product_rows_impl);
HWY_EXPORT(quantize_row_impl);

void product_rows(const QuantizedRow* x, float* const* y, std::int64_t rows, const QuantizedMatrix& w,
                  std::int64_t first, std::int64_t last, std::int64_t shift) {
  HWY_DYNAMIC_DISPATCH(product_rows_impl)(x, y, rows, w, first, last, shift);
}

gpu::Status QuantizedRows::quantize(gpu::HostStream& stream, const MatrixView<const float>& x) {
  const std::int64_t num_rows = x.rows.n, k = x.cols.n, row_blocks = k / kQuantBlock;
  grow(lines_, num_rows * row_blocks);
  grow(facts_, num_rows * row_blocks);
  grow(rows_, num_rows);
  const double cost = static_cast<double>(k) * 0.3;
  return parallel_ranges(stream, "quantize", num_rows, cost, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t r = first; r < last; ++r) {
      std::int8_t* values = lines_[static_cast<std::size_t>(r * row_blocks)].values;
      BlockFacts* blocks = &facts_[static_cast<std::size_t>(r * row_blocks)];
      rows_[static_cast<std::size_t>(r)] = {values, blocks};
      HWY_DYNAMIC_DISPATCH(quantize_row_impl)(x.row(Rows{r}), k, values, blocks);
    }
  });
}

}  // namespace kernels::cpu
#endif
