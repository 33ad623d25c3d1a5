#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "gpu/host/host_stream.h"
#include "gpu/view.h"

/// A matrix of any type with a pitch wider than its rows; the padding holds a sentinel that no op may touch
/// or use.
namespace kernels::testing {

class OpMatrix {
 public:
  OpMatrix(gpu::DType dtype, std::int64_t rows, std::int64_t cols, std::int64_t extra_pitch = 16)
      : dtype_(dtype),
        rows_(rows),
        cols_(cols),
        pitch_(gpu::round_up(cols, 8) + extra_pitch),
        lines_(static_cast<std::size_t>(rows * pitch_ * size_of(dtype) / 64 + 2)) {
    std::memset(lines_.data(), kSentinelByte, lines_.size() * sizeof(Line));
  }
  static OpMatrix random(gpu::DType dtype, std::int64_t rows, std::int64_t cols, std::mt19937& source,
                         double scale = 1.0) {
    OpMatrix m(dtype, rows, cols);
    std::normal_distribution<double> normal(0.0, scale);
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < cols; ++c) m.set(r, c, normal(source));
    }
    return m;
  }

  gpu::Matrix matrix() { return {base(), dtype_, {rows_}, {cols_}, {pitch_}}; }
  template <class T>
  gpu::MatrixView<T> view() {
    return gpu::typed<T>(matrix());
  }
  std::int64_t rows() const { return rows_; }
  std::int64_t cols() const { return cols_; }

  double at(std::int64_t r, std::int64_t c) const {
    if (dtype_ == gpu::DType::i32) return read<std::int32_t>(r, c);
    if (dtype_ == gpu::DType::f32) return read<float>(r, c);
    const auto bits = read<std::uint16_t>(r, c);
    if (dtype_ == gpu::DType::bf16) return std::bit_cast<float>(std::uint32_t{bits} << 16);
    const int exponent = (bits >> 10) & 31;
    const double magnitude =
        exponent == 0 ? std::ldexp(bits & 1023, -24) : std::ldexp(1024 + (bits & 1023), exponent - 25);
    return bits & 0x8000 ? -magnitude : magnitude;
  }
  /// Rounded to the type (f16 and bf16 towards zero).
  void set(std::int64_t r, std::int64_t c, double value) {
    if (dtype_ == gpu::DType::i32) return write(r, c, static_cast<std::int32_t>(value));
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
    if (dtype_ == gpu::DType::f32) return write(r, c, bits);
    if (dtype_ == gpu::DType::bf16) return write(r, c, static_cast<std::uint16_t>(bits >> 16));
    const std::uint32_t sign = bits >> 16 & 0x8000;
    if (std::abs(value) < 0x1p-14)
      return write(r, c,
                   static_cast<std::uint16_t>(sign | static_cast<std::uint32_t>(std::abs(value) * 0x1p24)));
    write(r, c, static_cast<std::uint16_t>(sign | (((bits >> 23 & 255) - 112) << 10) | (bits >> 13 & 1023)));
  }
  float f32(std::int64_t r, std::int64_t c) const { return read<float>(r, c); }

  /// The same values in another type (narrowed as `set` does), with the same columns of padding.
  OpMatrix converted(gpu::DType dtype) const {
    OpMatrix m(dtype, rows_, cols_, pitch_ - gpu::round_up(cols_, 8));
    for (std::int64_t r = 0; r < rows_; ++r)
      for (std::int64_t c = 0; c < cols_; ++c) m.set(r, c, at(r, c));
    return m;
  }
  std::byte* bytes() { return base(); }
  std::size_t num_bytes() const { return lines_.size() * sizeof(Line); }

  bool padding_untouched() const {
    OpMatrix copy = *this;
    for (std::int64_t r = 0; r < rows_; ++r) {
      std::memset(copy.place(r, 0), kSentinelByte, static_cast<std::size_t>(cols_ * size_of(dtype_)));
    }
    const auto* bytes = reinterpret_cast<const unsigned char*>(copy.lines_.data());
    return std::all_of(bytes, bytes + copy.lines_.size() * sizeof(Line),
                       [](unsigned char byte) { return byte == kSentinelByte; });
  }
  /// Row r as bits, to compare exactly.
  std::vector<std::uint32_t> row_bits(std::int64_t r) const {
    std::vector<std::uint32_t> bits(static_cast<std::size_t>(cols_));
    for (std::int64_t c = 0; c < cols_; ++c)
      bits[static_cast<std::size_t>(c)] = std::bit_cast<std::uint32_t>(f32(r, c));
    return bits;
  }

 private:
  static constexpr int kSentinelByte = 0xFF;  // NaN in every floating type
  struct alignas(64) Line {
    std::byte bytes[64];
  };

  std::byte* base() { return lines_.front().bytes; }
  std::byte* place(std::int64_t r, std::int64_t c) { return base() + (r * pitch_ + c) * size_of(dtype_); }
  template <class T>
  T read(std::int64_t r, std::int64_t c) const {
    T value;
    std::memcpy(&value, const_cast<OpMatrix*>(this)->place(r, c), sizeof value);
    return value;
  }
  template <class T>
  void write(std::int64_t r, std::int64_t c, T value) {
    std::memcpy(place(r, c), &value, sizeof value);
  }

  gpu::DType dtype_;
  std::int64_t rows_, cols_, pitch_;
  std::vector<Line> lines_;
};

inline OpMatrix f32(std::int64_t rows, std::int64_t cols) { return OpMatrix(gpu::DType::f32, rows, cols); }
inline OpMatrix random_f32(std::int64_t rows, std::int64_t cols, std::mt19937& source, double scale = 1.0) {
  return OpMatrix::random(gpu::DType::f32, rows, cols, source, scale);
}

inline double sigmoid_of(double x) { return 1.0 / (1.0 + std::exp(-x)); }
inline double silu_of(double x) { return x * sigmoid_of(x); }

}  // namespace kernels::testing
