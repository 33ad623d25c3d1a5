#include "kernels/quantized.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <numeric>
#include <string>

#include "tests/kernels/quantized_blocks.h"

namespace kernels {
namespace {

using Layout = QuantizedMatrix::Layout;
using testing::kQuantFormats;
using testing::RandomQuantized;

std::vector<std::uint32_t> bits_of(const float* values, std::int64_t n) {
  std::vector<std::uint32_t> bits(static_cast<std::size_t>(n));
  std::memcpy(bits.data(), values, bits.size() * 4);
  return bits;
}

TEST(Quantized, DequantizesBitForBitAsTheReferenceDecoder) {
  std::ifstream file(ATLAS_FIXTURES "/quantized/blocks.bin", std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  std::size_t at = 0;
  for (const QuantFormat format : kQuantFormats) {
    const auto size = static_cast<std::size_t>(row_bytes(format, {512}).n);
    ASSERT_LE(at + size + 2048, bytes.size());
    std::vector<float> wanted(512), got(512);
    std::memcpy(wanted.data(), bytes.data() + at + size, 2048);
    dequantize(format, reinterpret_cast<const std::byte*>(bytes.data() + at), {512}, got.data());
    EXPECT_EQ(bits_of(got.data(), 512), bits_of(wanted.data(), 512)) << to_string(format);
    at += size + 2048;
  }
  EXPECT_EQ(at, bytes.size());
}

TEST(Quantized, ARowComesOutOfEachLayoutAsItWentInWhateverTheOrder) {
  std::mt19937 random(3);
  for (const QuantFormat format : kQuantFormats) {
    for (const std::int64_t rows : {1, 15, 16, 17, 40}) {
      const RandomQuantized source(format, rows, 512, random);
      for (const Layout layout : {Layout::file, Layout::packed}) {
        std::vector<std::byte> memory(
            static_cast<std::size_t>(quantized_bytes(format, layout, {rows}, {512}).n));
        const QuantizedMatrix matrix{memory.data(), format, layout, {rows}, {512}};
        std::vector<std::int64_t> order(static_cast<std::size_t>(rows));
        std::iota(order.begin(), order.end(), 0);
        std::shuffle(order.begin(), order.end(), random);
        for (const std::int64_t r : order) place_row(matrix, memory.data(), {r}, source.file_row(r));
        for (std::int64_t r = 0; r < rows; ++r) {
          std::vector<float> values(512);
          dequantize_row(matrix, {r}, values.data());
          ASSERT_EQ(bits_of(values.data(), 512), bits_of(source.row(r), 512))
              << to_string(format) << " row " << r << " of " << rows;
        }
      }
    }
  }
}

TEST(Quantized, PackedTakesTheBytesOfTheFileForWholeTiles) {
  for (const QuantFormat format : kQuantFormats) {
    const std::int64_t file = quantized_bytes(format, Layout::file, {48}, {512}).n;
    const std::int64_t packed = quantized_bytes(format, Layout::packed, {48}, {512}).n;
    EXPECT_GE(packed, file) << to_string(format);
    EXPECT_LE(packed, file + file / 32) << to_string(format);
    EXPECT_EQ(quantized_bytes(format, Layout::packed, {33}, {512}).n, packed) << to_string(format);
  }
}

}  // namespace
}  // namespace kernels
