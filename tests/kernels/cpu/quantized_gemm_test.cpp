#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/quantized_rows.h"
#include "tests/kernels/cpu/every_target.h"
#include "tests/kernels/cpu/op_matrix.h"
#include "tests/kernels/quantized_blocks.h"

namespace kernels {
namespace {

using testing::kQuantFormats;
using testing::OpMatrix;
using testing::RandomQuantized;

GemmArgs args_of(OpMatrix& y, OpMatrix& x, const RandomQuantized& w) {
  return {y.matrix(), x.matrix(), {w.packed()}, Form::decode, "test"};
}

/// A row as int8 values and scales of blocks of 32, as gemm.h says (almost nothing counts as nothing).
struct RoundedRow {
  std::vector<double> values, scales;
};
RoundedRow rounded(const OpMatrix& x, std::int64_t r) {
  RoundedRow row;
  for (std::int64_t first = 0; first < x.cols(); first += 32) {
    float largest = 0.0F;
    for (std::int64_t k = first; k < first + 32; ++k) largest = std::max(largest, std::abs(x.f32(r, k)));
    const float factor = largest >= 1e-30F ? 127.0F / largest : 0.0F;
    for (std::int64_t k = first; k < first + 32; ++k) {
      row.values.push_back(std::nearbyint(x.f32(r, k) * factor));
      row.scales.push_back(static_cast<double>(largest) / 127.0);
    }
  }
  return row;
}

void expect_near_double(const OpMatrix& y, const OpMatrix& x, const RandomQuantized& w, const char* what) {
  for (std::int64_t r = 0; r < y.rows(); ++r) {
    const RoundedRow row = rounded(x, r);
    for (std::int64_t n = 0; n < y.cols(); ++n) {
      double exact = 0.0, magnitude = 0.0, coarse = 0.0, rounding = 0.0;
      for (std::int64_t k = 0; k < x.cols(); ++k) {
        const auto at = static_cast<std::size_t>(k);
        const double product = row.values[at] * row.scales[at] * static_cast<double>(w.at(n, k));
        exact += product;
        magnitude += 40.0 * row.scales[at] * std::abs(static_cast<double>(w.at(n, k)));
        magnitude += std::abs(product);
        coarse += x.at(r, k) * static_cast<double>(w.at(n, k));
        rounding += 0.51 * row.scales[at] * std::abs(static_cast<double>(w.at(n, k)));
      }
      const double chain = static_cast<double>(x.cols()) / 16.0 + 8.0;
      ASSERT_NEAR(y.at(r, n), exact, magnitude * 0x1p-24 * chain + 1e-12) << what << " " << r << "," << n;
      ASSERT_NEAR(y.at(r, n), coarse, rounding + magnitude * 0x1p-24 * chain + 1e-12) << what;
    }
  }
}

TEST(QuantizedGemm, AgreesWithDoublePrecisionForEveryFormatAndTail) {
  std::mt19937 random(17);
  gpu::PooledHostStream stream(2);
  for (const QuantFormat format : kQuantFormats) {
    const std::int64_t block = block_shape(format).elements;
    for (const std::int64_t k : {block, 3 * block}) {
      for (const std::int64_t n : {1, 15, 16, 17, 37}) {
        for (const std::int64_t rows : {1, 2, 3, 4, 5, 9, 17}) {
          OpMatrix x = testing::random_f32(rows, k, random);
          const RandomQuantized w(format, n, k, random);
          OpMatrix y = testing::f32(rows, n);
          ASSERT_TRUE(cpu::gemm(stream, args_of(y, x, w)).ok());
          expect_near_double(y, x, w, to_string(format).data());
          ASSERT_TRUE(y.padding_untouched());
        }
      }
    }
  }
}

/// Rule 0 of the architecture: a row's value depends on (form, N, K) and its operands alone.
TEST(QuantizedGemm, ARowHasTheSameBitsAloneAndInAnyBatchOnAnyNumberOfWorkers) {
  std::mt19937 random(18);
  std::vector<std::int64_t> batches(70);
  std::iota(batches.begin(), batches.end(), 1);
  batches.push_back(129);
  for (const QuantFormat format : kQuantFormats) {
    const std::int64_t n = 61, k = 512;
    OpMatrix all_x = testing::random_f32(129, k, random);
    const RandomQuantized w(format, n, k, random);
    std::vector<std::vector<std::uint32_t>> alone;
    gpu::PooledHostStream one(1);
    for (std::int64_t r = 0; r < 129; ++r) {
      OpMatrix y = testing::f32(1, n);
      GemmArgs args = args_of(y, all_x, w);
      args.x = args.x.from_row(Rows{r}).first_rows(Rows{1});
      ASSERT_TRUE(cpu::gemm(one, args).ok());
      alone.push_back(y.row_bits(0));
    }
    for (const int workers : {1, 2, 3}) {
      gpu::PooledHostStream stream(workers);
      for (const std::int64_t rows : batches) {
        const std::int64_t first = static_cast<std::int64_t>(random()) % (130 - rows);
        OpMatrix y = testing::f32(rows, n);
        GemmArgs args = args_of(y, all_x, w);
        args.x = args.x.from_row(Rows{first}).first_rows(Rows{rows});
        ASSERT_TRUE(cpu::gemm(stream, args).ok());
        for (std::int64_t r = 0; r < rows; ++r) {
          ASSERT_EQ(y.row_bits(r), alone[static_cast<std::size_t>(first + r)])
              << to_string(format) << " row " << first + r << " among " << rows << ", " << workers
              << " workers";
        }
      }
    }
  }
}

/// Extreme numbers on both sides, where sums of pairs would overflow 16 bits if they were not exact.
TEST(QuantizedGemm, EveryInstructionSetGivesTheSameBits) {
  std::mt19937 random(19);
  gpu::PooledHostStream stream(2);
  for (const QuantFormat format : kQuantFormats) {
    OpMatrix x = testing::random_f32(13, 512, random);
    for (std::int64_t k = 0; k < 512; ++k) {
      x.set(3, k, k % 3 == 0 ? -2.0 : 2.0);
      x.set(4, k, -2.0);
      x.set(5, k, 0.0);
      x.set(6, k, k == 77 ? 1e-42 : 0.0);
      x.set(7, k, static_cast<double>(k % 5 - 2) * 0.5 / 127.0 + (k % 32 == 0 ? 1.0 : 0.0));  // ties
    }
    const RandomQuantized w(format, 40, 512, random);
    std::vector<std::vector<std::uint32_t>> first;
    testing::for_every_target([&](const char* target) {
      OpMatrix y = testing::f32(13, 40);
      ASSERT_TRUE(cpu::gemm(stream, args_of(y, x, w)).ok());
      expect_near_double(y, x, w, target);
      std::vector<std::vector<std::uint32_t>> bits;
      for (std::int64_t r = 0; r < 13; ++r) bits.push_back(y.row_bits(r));
      if (first.empty()) first = bits;
      EXPECT_EQ(bits, first) << target << " " << to_string(format);
    });
  }
}

/// All weights at one end of their range and all activations at one end of theirs.
TEST(QuantizedGemm, TheLargestSumsAreExact) {
  gpu::PooledHostStream stream(1);
  for (const int byte : {0x80, 0x7F, 0xFF, 0x00}) {
    for (const QuantFormat format : kQuantFormats) {
      const std::int64_t k = block_shape(format).elements;
      std::vector<std::byte> row(static_cast<std::size_t>(block_shape(format).bytes),
                                 static_cast<std::byte>(byte));
      const std::uint16_t one = 0x3C00;
      for (const int field : testing::half_fields(format)) std::memcpy(row.data() + field, &one, 2);
      struct alignas(64) Line {
        std::byte bytes[64];
      };
      using Layout = QuantizedMatrix::Layout;
      std::vector<Line> memory(
          static_cast<std::size_t>(quantized_bytes(format, Layout::packed, {1}, {k}).n / 64 + 1));
      const QuantizedMatrix w{memory[0].bytes, format, Layout::packed, {1}, {k}};
      place_row(w, memory[0].bytes, {0}, row.data());
      std::vector<float> values(static_cast<std::size_t>(k));
      dequantize(format, row.data(), {k}, values.data());
      OpMatrix x = testing::f32(1, k), y = testing::f32(1, 1);
      for (const double end : {127.0, -127.0}) {
        double exact = 0.0;
        for (std::int64_t i = 0; i < k; ++i) {
          x.set(0, i, end);
          exact += end * static_cast<double>(values[static_cast<std::size_t>(i)]);
        }
        testing::for_every_target([&](const char* target) {
          ASSERT_TRUE(cpu::gemm(stream, {y.matrix(), x.matrix(), {w}, Form::decode, "test"}).ok());
          EXPECT_NEAR(y.at(0, 0), exact, std::abs(exact) * 1e-6 + 4.0) << target << " " << to_string(format);
        });
      }
    }
  }
}

TEST(QuantizedGemm, ARowThatIsNotFiniteStaysNotFiniteAndAlone) {
  std::mt19937 random(20);
  gpu::PooledHostStream stream(1);
  const RandomQuantized w(QuantFormat::q4_1, 20, 64, random);
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    OpMatrix x = testing::random_f32(3, 64, random);
    x.set(1, 40, static_cast<double>(bad));
    testing::for_every_target([&](const char* target) {
      OpMatrix y = testing::f32(3, 20);
      ASSERT_TRUE(cpu::gemm(stream, args_of(y, x, w)).ok());
      for (std::int64_t n = 0; n < 20; ++n) {
        EXPECT_TRUE(std::isfinite(y.at(0, n)) && std::isfinite(y.at(2, n))) << target;
        EXPECT_FALSE(std::isfinite(y.at(1, n))) << target;
      }
    });
  }
}

/// Experts may begin and end in the middle of a tile.
TEST(QuantizedGemm, AnyRangeOfRowsIsTheSameNumbersShifted) {
  std::mt19937 random(22);
  gpu::PooledHostStream stream(1);
  const RandomQuantized w(QuantFormat::q5_1, 56, 64, random);
  OpMatrix x = testing::random_f32(11, 64, random), whole = testing::f32(11, 56);
  ASSERT_TRUE(cpu::gemm(stream, args_of(whole, x, w)).ok());
  cpu::QuantizedRows rows;
  ASSERT_TRUE(rows.quantize(stream, x.view<float>()).ok());
  for (const auto& [first, last] :
       {std::pair<std::int64_t, std::int64_t>{8, 24}, {3, 5}, {16, 32}, {40, 56}}) {
    OpMatrix y = testing::f32(11, last - first);
    float* places[11];
    for (std::int64_t r = 0; r < 11; ++r) places[r] = y.view<float>().row({r});
    cpu::product_rows(rows.rows(), places, 11, w.packed(), first, last, first);
    for (std::int64_t r = 0; r < 11; ++r) {
      for (std::int64_t n = first; n < last; ++n) {
        ASSERT_EQ(y.f32(r, n - first), whole.f32(r, n)) << first << " to " << last << ": " << r << "," << n;
      }
    }
    EXPECT_TRUE(y.padding_untouched());
  }
}

TEST(GemmGroup, EachProductHasTheBitsOfAGemm) {
  std::mt19937 random(21);
  const RandomQuantized q4(QuantFormat::q4_1, 200, 288, random), q8(QuantFormat::q8_0, 45, 288, random);
  OpMatrix f32 = OpMatrix::random(gpu::DType::f32, 50, 288, random);
  OpMatrix bf16 = OpMatrix::random(gpu::DType::bf16, 130, 288, random);
  const std::vector<Weight> weights = {q4.packed(), f32.matrix(), q8.packed(), bf16.matrix()};
  for (const int workers : {1, 3}) {
    gpu::PooledHostStream stream(workers);
    for (const std::int64_t rows : {1, 7, 70, 300}) {
      OpMatrix x = testing::random_f32(rows, 288, random);
      std::vector<OpMatrix> grouped, single;
      for (const Weight& w : weights) grouped.push_back(testing::f32(rows, w.rows().n));
      single = grouped;
      std::vector<GemmGroupArgs::Output> outputs;
      for (int copy = 0; copy < 3; ++copy) {  // more than one region takes
        for (std::size_t i = 0; i < weights.size(); ++i) outputs.push_back({grouped[i].matrix(), weights[i]});
      }
      ASSERT_TRUE(cpu::gemm_group(stream, {x.matrix(), outputs, Form::decode}).ok());
      for (std::size_t i = 0; i < weights.size(); ++i) {
        ASSERT_TRUE(cpu::gemm(stream, {single[i].matrix(), x.matrix(), weights[i], Form::decode}).ok());
        for (std::int64_t r = 0; r < rows; ++r) ASSERT_EQ(grouped[i].row_bits(r), single[i].row_bits(r)) << i;
      }
    }
  }
}

TEST(GemmGroup, AnEmptyGroupDoesNothing) {
  gpu::PooledHostStream stream(1);
  std::mt19937 random(1);
  OpMatrix x = testing::random_f32(2, 32, random);
  EXPECT_TRUE(cpu::gemm_group(stream, {x.matrix(), {}, Form::decode}).ok());
}

}  // namespace
}  // namespace kernels
