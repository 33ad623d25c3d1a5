#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/quantized.h"

/// Quantised weights for tests: random blocks as a file has them, their packed copy, and the numbers that
/// they stand for.
namespace kernels::testing {

inline constexpr QuantFormat kQuantFormats[] = {QuantFormat::q4_0, QuantFormat::q4_1, QuantFormat::q5_0,
                                                QuantFormat::q5_1, QuantFormat::q8_0, QuantFormat::q4_k,
                                                QuantFormat::q5_k, QuantFormat::q6_k};

/// Where a block has its f16 fields.
inline std::vector<int> half_fields(QuantFormat format) {
  if (format == QuantFormat::q6_k) return {208};
  const bool one = format == QuantFormat::q4_0 || format == QuantFormat::q5_0 || format == QuantFormat::q8_0;
  return one ? std::vector<int>{0} : std::vector<int>{0, 2};
}

class RandomQuantized {
 public:
  RandomQuantized(QuantFormat format, std::int64_t rows, std::int64_t cols, std::mt19937& random)
      : format_(format),
        rows_(rows),
        cols_(cols),
        file_(static_cast<std::size_t>(rows * row_bytes(format, {cols}).n)),
        packed_(static_cast<std::size_t>(
                    quantized_bytes(format, QuantizedMatrix::Layout::packed, {rows}, {cols}).n) /
                    sizeof(Line) +
                1),
        values_(static_cast<std::size_t>(rows * cols)) {
    for (std::byte& byte : file_) byte = static_cast<std::byte>(random());
    const BlockShape shape = block_shape(format);
    for (std::size_t at = 0; at < file_.size(); at += static_cast<std::size_t>(shape.bytes)) {
      for (const int field : half_fields(format)) {
        // ±2^-6 … ±2^-4
        const auto half = static_cast<std::uint16_t>((random() & 0x8000U) | 0x2400U | (random() & 0x7FFU));
        std::memcpy(file_.data() + at + static_cast<std::size_t>(field), &half, 2);
      }
    }
    for (std::int64_t r = 0; r < rows; ++r) {
      place_row(packed(), packed_.front().bytes, {r}, file_row(r));
      dequantize(format, file_row(r), {cols}, values_.data() + r * cols);
    }
  }

  QuantizedMatrix packed() const {
    return {packed_.front().bytes, format_, QuantizedMatrix::Layout::packed, {rows_}, {cols_}};
  }
  QuantizedMatrix file() const {
    return {file_.data(), format_, QuantizedMatrix::Layout::file, {rows_}, {cols_}};
  }
  const std::byte* file_row(std::int64_t r) const { return file_.data() + r * row_bytes(format_, {cols_}).n; }
  float at(std::int64_t r, std::int64_t c) const { return values_[static_cast<std::size_t>(r * cols_ + c)]; }
  const float* row(std::int64_t r) const { return values_.data() + r * cols_; }
  std::int64_t rows() const { return rows_; }
  std::int64_t cols() const { return cols_; }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  QuantFormat format_;
  std::int64_t rows_, cols_;
  std::vector<std::byte> file_;
  std::vector<Line> packed_;
  std::vector<float> values_;
};

}  // namespace kernels::testing
