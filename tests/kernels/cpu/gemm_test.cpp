#include "kernels/gemm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/targets.h"
#include "tests/kernels/cpu/op_matrix.h"

#include "hwy/highway.h"

namespace kernels {
namespace {

using gpu::DType;
using testing::OpMatrix;

GemmArgs args_of(OpMatrix& y, OpMatrix& x, OpMatrix& w) {
  return {y.matrix(), x.matrix(), {w.matrix()}, Form::decode, "test"};
}

/// |error| is at most that of an fp32 sum of K products, in the worst order.
void expect_near_double(const OpMatrix& y, const OpMatrix& x, const OpMatrix& w) {
  for (std::int64_t r = 0; r < y.rows(); ++r) {
    for (std::int64_t n = 0; n < y.cols(); ++n) {
      double exact = 0.0, magnitude = 0.0;
      for (std::int64_t k = 0; k < x.cols(); ++k) {
        exact += x.at(r, k) * w.at(n, k);
        magnitude += std::abs(x.at(r, k) * w.at(n, k));
      }
      ASSERT_NEAR(y.at(r, n), exact,
                  magnitude * 0x1p-24 * (static_cast<double>(x.cols()) / 16.0 + 5.0) + 1e-12)
          << r << "," << n;
    }
  }
}

TEST(Gemm, AgreesWithDoublePrecisionForEveryTypeAndTail) {
  std::mt19937 random(11);
  gpu::PooledHostStream stream(2);
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (const std::int64_t k : {8, 16, 24, 40, 64, 264}) {
      for (const std::int64_t n : {1, 3, 4, 5, 8, 37}) {
        for (const std::int64_t rows : {1, 2, 3, 4, 5, 9, 17}) {
          OpMatrix x = testing::random_f32(rows, k, random);
          OpMatrix w = OpMatrix::random(dtype, n, k, random);
          OpMatrix y = testing::f32(rows, n);
          ASSERT_TRUE(cpu::gemm(stream, args_of(y, x, w)).ok());
          expect_near_double(y, x, w);
          ASSERT_TRUE(y.padding_untouched());
        }
      }
    }
  }
}

TEST(Gemm, NothingToDoTouchesNothing) {
  gpu::PooledHostStream stream(1);
  GemmArgs args;
  args.x.cols = Elements{8};
  args.x.pitch = Elements{8};
  EXPECT_TRUE(cpu::gemm(stream, args).ok());
}

/// Rule 0 of the architecture: a row's value depends on (form, N, K) and its operands alone.
TEST(Gemm, ARowHasTheSameBitsAloneAndInAnyBatchOnAnyNumberOfWorkers) {
  const unsigned seed = 20240611;
  RecordProperty("seed", static_cast<int>(seed));
  std::mt19937 random(seed);
  std::vector<std::int64_t> batches(70);
  std::iota(batches.begin(), batches.end(), 1);
  batches.push_back(129);
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (const auto& [n, k] : {std::pair<std::int64_t, std::int64_t>{45, 72}, {132, 320}}) {
      OpMatrix all_x = testing::random_f32(129, k, random);
      OpMatrix w = OpMatrix::random(dtype, n, k, random);
      std::vector<std::vector<std::uint32_t>> alone;
      gpu::PooledHostStream one(1);
      for (std::int64_t r = 0; r < 129; ++r) {
        OpMatrix y = testing::f32(1, n);
        GemmArgs args = args_of(y, all_x, w);
        args.x = args.x.from_row(Rows{r});
        args.x.rows = Rows{1};
        ASSERT_TRUE(cpu::gemm(one, args).ok());
        alone.push_back(y.row_bits(0));
      }
      for (const int workers : {1, 2, 3}) {
        gpu::PooledHostStream stream(workers);
        for (const std::int64_t rows : batches) {
          const std::int64_t first = static_cast<std::int64_t>(random()) % (130 - rows);
          OpMatrix y = testing::f32(rows, n);
          GemmArgs args = args_of(y, all_x, w);
          args.x = args.x.from_row(Rows{first});
          args.x.rows = Rows{rows};
          ASSERT_TRUE(cpu::gemm(stream, args).ok());
          for (std::int64_t r = 0; r < rows; ++r) {
            ASSERT_EQ(y.row_bits(r), alone[static_cast<std::size_t>(first + r)])
                << to_string(dtype) << " row " << first + r << " among " << rows << ", " << workers
                << " workers";
          }
        }
      }
    }
  }
}

/// The order that the specification names: sixteen lanes over ascending k, then lanes 8, 4, 2 and 1 apart.
float dot_as_specified(const OpMatrix& x, std::int64_t r, const OpMatrix& w, std::int64_t n) {
  float lanes[16] = {};
  for (std::int64_t k = 0; k < x.cols(); ++k) {
    lanes[k % 16] = std::fma(x.f32(r, k), static_cast<float>(w.at(n, k)), lanes[k % 16]);
  }
  for (int width = 8; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return lanes[0];
}

TEST(Gemm, SumsInTheSpecifiedOrderInEveryInstructionSet) {
  std::mt19937 random(12);
  gpu::PooledHostStream stream(2);
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    OpMatrix x = testing::random_f32(13, 200, random);
    OpMatrix w = OpMatrix::random(dtype, 27, 200, random);
    OpMatrix y = testing::f32(13, 27);
    hwy::SetSupportedTargetsForTest(0);
    for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
      hwy::SetSupportedTargetsForTest(target);
      hwy::GetChosenTarget().Update(hwy::SupportedTargets());
      ASSERT_TRUE(cpu::gemm(stream, args_of(y, x, w)).ok());
      for (std::int64_t r = 0; r < 13; ++r) {
        for (std::int64_t n = 0; n < 27; ++n) {
          EXPECT_EQ(y.f32(r, n), dot_as_specified(x, r, w, n))
              << hwy::TargetName(target) << " " << r << "," << n;
        }
      }
    }
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
}

TEST(Gemm, WidensEveryHalfAndBrainValueExactly) {
  gpu::PooledHostStream stream(1);
  OpMatrix x = testing::f32(1, 8);
  OpMatrix y = testing::f32(1, 1);
  for (const DType dtype : {DType::f16, DType::bf16}) {
    OpMatrix w(dtype, 1, 8);
    for (int i = 0; i < 8; ++i) {
      x.set(0, i, i == 3 ? 1.0 : 0.0);
      w.set(0, i, 0.0);
    }
    for (std::uint32_t bits = 0; bits < 65536; bits += 3) {
      const auto narrow = static_cast<std::uint16_t>(bits);
      std::memcpy(w.matrix().base + 6, &narrow, 2);
      const double exact = w.at(0, 3);
      const bool finite = dtype == DType::f16 ? (bits >> 10 & 31) != 31 : (bits >> 7 & 255) != 255;
      if (!finite) continue;
      ASSERT_TRUE(cpu::gemm(stream, args_of(y, x, w)).ok());
      ASSERT_EQ(y.at(0, 0), exact) << bits;
    }
  }
}

}  // namespace
}  // namespace kernels
