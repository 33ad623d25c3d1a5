#include "kernels/quantized.h"

#include <cstring>

#include "kernels/packed_layout.h"
#include "kernels/widen.h"

namespace kernels {
namespace {

/// 32 weights of one row, whatever their format and place: value k = d * scale[k / 16] * (numbers[k] - bias)
/// + offset, where small scales are 1 if the format has none and the offset is m or -(m * min).
struct Block {
  std::uint8_t numbers[32] = {};  ///< unsigned
  std::uint16_t d = 0, m = 0;     ///< f16
  std::uint8_t scale[2] = {};     ///< q6_k: the bits of an i8
  std::uint8_t min = 0;
};

constexpr bool has_small_mins(const PackedShape& shape) {
  return shape.has_minimum && shape.small_scales > 0;
}

std::uint8_t byte_at(const std::byte* p, std::int64_t i) { return static_cast<std::uint8_t>(p[i]); }
std::uint16_t half_at(const std::byte* p) {
  std::uint16_t bits;
  std::memcpy(&bits, p, 2);
  return bits;
}
constexpr std::uint8_t narrow(int x) { return static_cast<std::uint8_t>(x); }

/// ql: 16 bytes, k in the low nibbles, k + 16 in the high ones.
void read_nibbles(const std::byte* ql, Block& block) {
  for (int i = 0; i < 16; ++i) {
    block.numbers[i] = narrow(byte_at(ql, i) & 15);
    block.numbers[i + 16] = narrow(byte_at(ql, i) >> 4);
  }
}
/// qh: 32 bits, bit k is bit 4 of number k.
void add_fifth_bits(const std::byte* qh, Block& block) {
  for (int i = 0; i < 32; ++i) {
    block.numbers[i] = narrow(block.numbers[i] | ((byte_at(qh, i / 8) >> i % 8 & 1) << 4));
  }
}

/// 12 bytes hold eight scales and eight minima of 6 bits: the first four of each in the low bits of bytes 0-3
/// and 4-7, the others in the nibbles of bytes 8-11 and the top bits of the bytes before.
void read_six_bit_scales(const std::byte* packed, int index, Block& block) {
  if (index < 4) {
    block.scale[0] = narrow(byte_at(packed, index) & 63);
    block.min = narrow(byte_at(packed, index + 4) & 63);
  } else {
    block.scale[0] = narrow((byte_at(packed, index + 4) & 15) | (byte_at(packed, index - 4) >> 6 << 4));
    block.min = narrow(byte_at(packed, index + 4) >> 4 | (byte_at(packed, index) >> 6 << 4));
  }
  block.scale[1] = block.scale[0];
}

/// Block `index` (of 32) of one of a file's super-blocks of 256; 0 in the formats without.
Block read_file_block(QuantFormat format, const std::byte* p, int index) {
  Block block;
  switch (format) {
    case QuantFormat::q4_0:
      block.d = half_at(p);
      read_nibbles(p + 2, block);
      return block;
    case QuantFormat::q4_1:
      block.d = half_at(p);
      block.m = half_at(p + 2);
      read_nibbles(p + 4, block);
      return block;
    case QuantFormat::q5_0:
      block.d = half_at(p);
      read_nibbles(p + 6, block);
      add_fifth_bits(p + 2, block);
      return block;
    case QuantFormat::q5_1:
      block.d = half_at(p);
      block.m = half_at(p + 2);
      read_nibbles(p + 8, block);
      add_fifth_bits(p + 4, block);
      return block;
    case QuantFormat::q8_0:
      block.d = half_at(p);
      for (int i = 0; i < 32; ++i) block.numbers[i] = narrow(byte_at(p, 2 + i) ^ 128);
      return block;
    case QuantFormat::q4_k:
    case QuantFormat::q5_k: {
      const bool five = format == QuantFormat::q5_k;
      block.d = half_at(p);
      block.m = half_at(p + 2);
      read_six_bit_scales(p + 4, index, block);
      const std::byte* qh = p + 16;
      const std::byte* ql = p + (five ? 48 : 16) + index / 2 * 32;
      for (int i = 0; i < 32; ++i) {
        block.numbers[i] = narrow(byte_at(ql, i) >> index % 2 * 4 & 15);
        if (five) block.numbers[i] = narrow(block.numbers[i] | ((byte_at(qh, i) >> index & 1) << 4));
      }
      return block;
    }
    case QuantFormat::q6_k: {
      // Halves of 128: 64 bytes of low nibbles and 32 of two-bit pieces each.
      const int half = index / 4, quarter = index % 4;
      const std::byte* ql = p + half * 64 + quarter % 2 * 32;
      const std::byte* qh = p + 128 + half * 32;
      for (int i = 0; i < 32; ++i) {
        const int low = byte_at(ql, i) >> quarter / 2 * 4 & 15;
        block.numbers[i] = narrow(low | ((byte_at(qh, i) >> quarter * 2 & 3) << 4));
      }
      block.scale[0] = byte_at(p, 192 + 2 * index);
      block.scale[1] = byte_at(p, 192 + 2 * index + 1);
      block.d = half_at(p + 208);
      return block;
    }
  }
  return block;
}

void values_of(QuantFormat format, const Block& block, float* values) {
  const PackedShape shape = packed_shape(format);
  float scale[2] = {widen_half(block.d), widen_half(block.d)};
  float offset = widen_half(block.m);
  if (format == QuantFormat::q6_k) {
    for (int i = 0; i < 2; ++i) scale[i] *= static_cast<float>(static_cast<std::int8_t>(block.scale[i]));
  } else if (shape.small_scales > 0) {
    for (int i = 0; i < 2; ++i) scale[i] *= static_cast<float>(block.scale[i]);
    offset = -(offset * static_cast<float>(block.min));
  }
  for (int i = 0; i < 32; ++i) {
    const float product = scale[i / 16] * static_cast<float>(block.numbers[i] - shape.bias);
    values[i] = shape.has_minimum ? product + offset : product;
  }
}

/// Where block `index` of a row lies in a packed weight.
struct Place {
  std::int64_t group;   ///< byte at which the block's group begins
  std::int64_t lines;   ///< byte at which the block's lines begin
  std::int64_t scales;  ///< byte at which its small scales begin
  int row;              ///< in the tile
};
Place place_of(const QuantizedMatrix& matrix, std::int64_t row, std::int64_t index) {
  const PackedShape shape = packed_shape(matrix.format);
  const std::int64_t in_group = index % shape.blocks;
  const std::int64_t group = row / kTileRowsPacked * packed_tile_bytes(matrix.format, matrix.cols.n) +
                             index / shape.blocks * shape.group_bytes();
  return {group, group + shape.lines_at() + in_group * shape.line_bytes(),
          group + shape.small_scales_at() + in_group * 16 * shape.small_scales,
          static_cast<int>(row % kTileRowsPacked)};
}

void write_packed(const PackedShape& shape, const Place& place, const Block& block, std::byte* base) {
  std::memcpy(base + place.group + 2 * place.row, &block.d, 2);
  if (shape.has_minimum) std::memcpy(base + place.group + 32 + 2 * place.row, &block.m, 2);
  if (shape.small_scales > 0) {
    base[place.scales + place.row] = std::byte{block.scale[0]};
    base[place.scales + 16 + place.row] = std::byte{has_small_mins(shape) ? block.min : block.scale[1]};
  }
  std::byte* lines = base + place.lines + 4 * place.row;  // this row's four bytes of a line
  const auto byte_of = [&](int line, int i) -> std::byte& { return lines[64 * line + i]; };
  for (int i = 0; i < 4; ++i) {
    const auto quad = [&](int j) { return block.numbers[4 * j + i]; };
    if (shape.bits == 8) {
      for (int j = 0; j < 8; ++j) byte_of(j, i) = std::byte{quad(j)};
      continue;
    }
    for (int j = 0; j < 4; ++j) byte_of(j, i) = std::byte{narrow((quad(j) & 15) | quad(j + 4) << 4)};
    if (shape.bits == 5) {
      int bits = 0;
      for (int j = 0; j < 8; ++j) bits |= quad(j) >> 4 << j;
      byte_of(4, i) = std::byte{narrow(bits)};
    } else if (shape.bits == 6) {
      for (int l = 0; l < 2; ++l) {
        int bits = 0;
        for (int j = 0; j < 4; ++j) bits |= quad(4 * l + j) >> 4 << 2 * j;
        byte_of(4 + l, i) = std::byte{narrow(bits)};
      }
    }
  }
}

Block read_packed(const PackedShape& shape, const Place& place, const std::byte* base) {
  Block block;
  block.d = half_at(base + place.group + 2 * place.row);
  if (shape.has_minimum) block.m = half_at(base + place.group + 32 + 2 * place.row);
  if (shape.small_scales > 0) {
    block.scale[0] = block.scale[1] = byte_at(base, place.scales + place.row);
    (has_small_mins(shape) ? block.min : block.scale[1]) = byte_at(base, place.scales + 16 + place.row);
  }
  const std::byte* lines = base + place.lines + 4 * place.row;
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 8; ++j) {
      int number = 0;
      if (shape.bits == 8) {
        number = byte_at(lines, 64 * j + i);
      } else {
        number = byte_at(lines, 64 * (j % 4) + i) >> j / 4 * 4 & 15;
        if (shape.bits == 5) number |= (byte_at(lines, 64 * 4 + i) >> j & 1) << 4;
        if (shape.bits == 6) number |= (byte_at(lines, 64 * (4 + j / 4) + i) >> 2 * (j % 4) & 3) << 4;
      }
      block.numbers[4 * j + i] = narrow(number);
    }
  }
  return block;
}

}  // namespace

std::string_view to_string(QuantFormat format) {
  switch (format) {
    case QuantFormat::q4_0:
      return "q4_0";
    case QuantFormat::q4_1:
      return "q4_1";
    case QuantFormat::q5_0:
      return "q5_0";
    case QuantFormat::q5_1:
      return "q5_1";
    case QuantFormat::q8_0:
      return "q8_0";
    case QuantFormat::q4_k:
      return "q4_k";
    case QuantFormat::q5_k:
      return "q5_k";
    case QuantFormat::q6_k:
      return "q6_k";
  }
  return "?";
}

gpu::Bytes quantized_bytes(QuantFormat format, QuantizedMatrix::Layout layout, gpu::Rows rows,
                           gpu::Elements cols) {
  if (layout == QuantizedMatrix::Layout::file) return {rows.n * row_bytes(format, cols).n};
  return {gpu::ceil_div(rows.n, kTileRowsPacked) * packed_tile_bytes(format, cols.n)};
}

void place_row(const QuantizedMatrix& matrix, std::byte* base, gpu::Rows row, const std::byte* blocks) {
  if (matrix.layout == QuantizedMatrix::Layout::file) {
    const auto size = static_cast<std::size_t>(row_bytes(matrix.format, matrix.cols).n);
    std::memcpy(base + row.n * static_cast<std::int64_t>(size), blocks, size);
    return;
  }
  const PackedShape shape = packed_shape(matrix.format);
  const BlockShape file = block_shape(matrix.format);
  for (std::int64_t index = 0; index < matrix.cols.n / kQuantBlock; ++index) {
    const std::byte* from = blocks + index / shape.blocks * file.bytes;
    write_packed(shape, place_of(matrix, row.n, index),
                 read_file_block(matrix.format, from, static_cast<int>(index % shape.blocks)), base);
  }
}

void dequantize(QuantFormat format, const std::byte* blocks, gpu::Elements elements, float* values) {
  const int per_block = packed_shape(format).blocks;
  const BlockShape file = block_shape(format);
  for (std::int64_t index = 0; index < elements.n / kQuantBlock; ++index) {
    const std::byte* from = blocks + index / per_block * file.bytes;
    values_of(format, read_file_block(format, from, static_cast<int>(index % per_block)),
              values + index * kQuantBlock);
  }
}

void dequantize_row(const QuantizedMatrix& matrix, gpu::Rows row, float* values) {
  if (matrix.layout == QuantizedMatrix::Layout::file) {
    return dequantize(matrix.format, matrix.base + row.n * row_bytes(matrix.format, matrix.cols).n,
                      matrix.cols, values);
  }
  const PackedShape shape = packed_shape(matrix.format);
  for (std::int64_t index = 0; index < matrix.cols.n / kQuantBlock; ++index) {
    const Block block = read_packed(shape, place_of(matrix, row.n, index), matrix.base);
    values_of(matrix.format, block, values + index * kQuantBlock);
  }
}

}  // namespace kernels
