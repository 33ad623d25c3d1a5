#pragma once

#include "kernels/quantized.h"

namespace kernels {

/// How a packed weight lies in memory. Sixteen rows (of the weight: columns of a product) are one tile; a
/// tile is a run of groups over ascending k, and tiles follow each other. A group is
///
///   scales  f16 d[16], f16 m[16] (formats with an offset), then for each block of 32 k of the group its
///   small
///           scales: u8 scale[16], u8 min[16] (q4_k, q5_k) or i8 scale[16] of k 0 … 15, of k 16 … 31 (q6_k)
///   lines   for each block of 32 k the numbers, unsigned, in lines of 64 bytes
///
/// A quad is a line that holds one byte for sixteen rows times four consecutive k: byte 4*row + i is k = 4*j
/// + i of quad j. So a broadcast of four activations times a quad adds to sixteen rows at once, and no sum
/// ever crosses lanes. A block has eight quads:
///
///   8 bits  the eight quads
///   4 bits  four lines: quad j in the low nibbles of line j, quad j + 4 in the high ones
///   5 bits  and a line whose bit j of a byte is bit 4 of quad j
///   6 bits  and two lines: bits 2i, 2i + 1 of line l are bits 4 and 5 of quad 4l + i
struct PackedShape {
  int bits = 8;
  int blocks = 1;            ///< blocks of 32 in a group
  bool has_minimum = false;  ///< m, and min where scales are small
  int small_scales = 0;      ///< bytes of small scales a row and block
  int bias = 0;              ///< what the unsigned numbers are above the signed ones

  constexpr std::int64_t line_bytes() const { return bits == 8 ? 512 : 256 + 64 * (bits - 4); }
  constexpr std::int64_t small_scales_at() const { return has_minimum ? 64 : 32; }
  constexpr std::int64_t lines_at() const { return small_scales_at() + 16 * small_scales * blocks; }
  constexpr std::int64_t group_bytes() const { return lines_at() + line_bytes() * blocks; }
};

constexpr PackedShape packed_shape(QuantFormat format) {
  switch (format) {
    case QuantFormat::q4_0:
      return {4, 1, false, 0, 8};
    case QuantFormat::q4_1:
      return {4, 1, true, 0, 0};
    case QuantFormat::q5_0:
      return {5, 1, false, 0, 16};
    case QuantFormat::q5_1:
      return {5, 1, true, 0, 0};
    case QuantFormat::q8_0:
      return {8, 1, false, 0, 128};
    case QuantFormat::q4_k:
      return {4, 8, true, 2, 0};
    case QuantFormat::q5_k:
      return {5, 8, true, 2, 0};
    case QuantFormat::q6_k:
      return {6, 8, false, 2, 32};
  }
  return {};
}

inline constexpr std::int64_t kTileRowsPacked = 16;
inline constexpr std::int64_t kQuantBlock = 32;

/// Bytes of one tile.
constexpr std::int64_t packed_tile_bytes(QuantFormat format, std::int64_t cols) {
  const PackedShape shape = packed_shape(format);
  return cols / (kQuantBlock * shape.blocks) * shape.group_bytes();
}

}  // namespace kernels
