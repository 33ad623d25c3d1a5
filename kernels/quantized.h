#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "gpu/units.h"

namespace kernels {

/// Block formats of weights in GGUF files (ggml's q8_0 … q6_k). A row of K elements is K / elements blocks
/// one after another, little endian.
enum class QuantFormat : std::uint8_t { q4_0, q4_1, q5_0, q5_1, q8_0, q4_k, q5_k, q6_k };

struct BlockShape {
  std::int64_t elements = 0;
  std::int64_t bytes = 0;
};
constexpr BlockShape block_shape(QuantFormat format) {
  switch (format) {
    case QuantFormat::q4_0:
      return {32, 18};
    case QuantFormat::q4_1:
      return {32, 20};
    case QuantFormat::q5_0:
      return {32, 22};
    case QuantFormat::q5_1:
      return {32, 24};
    case QuantFormat::q8_0:
      return {32, 34};
    case QuantFormat::q4_k:
      return {256, 144};
    case QuantFormat::q5_k:
      return {256, 176};
    case QuantFormat::q6_k:
      return {256, 210};
  }
  return {};
}
std::string_view to_string(QuantFormat format);

/// Bytes of one row as a file has it. `cols` is a multiple of the block's elements.
constexpr gpu::Bytes row_bytes(QuantFormat format, gpu::Elements cols) {
  return {cols.n / block_shape(format).elements * block_shape(format).bytes};
}

/// A quantised weight [rows, cols] where the device reads it.
///   file    rows as a file has them, one after another: tables whose rows are looked up.
///   packed  the CPU backend's order for products (quantized.cpp draws it): the same numbers, the same bytes
///           a block, sixteen rows side by side; the last tile is padded with zero rows.
struct QuantizedMatrix {
  enum class Layout : std::uint8_t { file, packed };
  const std::byte* base = nullptr;
  QuantFormat format = QuantFormat::q8_0;
  Layout layout = Layout::packed;
  gpu::Rows rows;
  gpu::Elements cols;
};

/// Bytes that a weight takes in a layout.
gpu::Bytes quantized_bytes(QuantFormat format, QuantizedMatrix::Layout layout, gpu::Rows rows,
                           gpu::Elements cols);
/// Puts one row (as a file has it) in its place in the layout. `base` holds quantized_bytes(…), zeroed
/// before the first row. Host memory. Rows may come in any order.
void place_row(const QuantizedMatrix& matrix, std::byte* base, gpu::Rows row, const std::byte* blocks);

/// The numbers that `elements` quantised weights stand for, in fp32, bit-equal to the reference decoder
/// (the Python package gguf, module quants). `elements` is a multiple of the block's.
void dequantize(QuantFormat format, const std::byte* blocks, gpu::Elements elements, float* values);
/// The same of one row of a weight in any layout.
void dequantize_row(const QuantizedMatrix& matrix, gpu::Rows row, float* values);

}  // namespace kernels
