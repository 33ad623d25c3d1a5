#include "kernels/elementwise.h"

#include <gtest/gtest.h>

#include <string>

#include "kernels/cpu/cpu_ops.h"
#include "tests/kernels/cpu/op_matrix.h"

namespace kernels {
namespace {

using gpu::DType;
using testing::OpMatrix;

constexpr std::int64_t kCols[] = {1, 15, 16, 17, 40};

/// Rows that are slot, position pairs, each its own segment.
struct Rows2 {
  std::vector<std::int32_t> slot, position, first, count;
  RowBatch batch() {
    const auto n = static_cast<std::int64_t>(slot.size());
    first.clear();
    for (std::int64_t r = 0; r < n; ++r) first.push_back(static_cast<std::int32_t>(r));
    count.assign(slot.size(), 1);
    return {Form::decode,
            {n},
            {slot.data(), {n}},
            {position.data(), {n}},
            static_cast<std::int32_t>(n),
            {slot.data(), {n}},
            {first.data(), {n}},
            {count.data(), {n}},
            1,
            7};
  }
};

TEST(Embedding, WidensTheRowOfTheTokenAtSlotAndPosition) {
  std::mt19937 random(31);
  gpu::PooledHostStream stream(2);
  OpMatrix ids(DType::i32, 3, 8);
  for (std::int64_t s = 0; s < 3; ++s) {
    for (std::int64_t p = 0; p < 8; ++p) ids.set(s, p, static_cast<double>((s * 8 + p) % 11));
  }
  Rows2 rows{{2, 0, 1}, {7, 0, 3}, {}, {}};
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (const std::int64_t cols : kCols) {
      OpMatrix table = OpMatrix::random(dtype, 11, cols, random), y = testing::f32(3, cols);
      ASSERT_TRUE(
          cpu::embedding(stream, rows.batch(), {y.matrix(), table.matrix(), ids.view<std::int32_t>()}).ok());
      for (std::int64_t c = 0; c < cols; ++c) {
        ASSERT_EQ(y.at(0, c), table.at(23 % 11, c));
        ASSERT_EQ(y.at(1, c), table.at(0, c));
        ASSERT_EQ(y.at(2, c), table.at(0, c));
      }
      EXPECT_TRUE(y.padding_untouched());
    }
  }
}

TEST(Embedding, ATokenOutsideTheTableIsRefusedAndNothingIsWritten) {
  gpu::PooledHostStream stream(1);
  OpMatrix ids(DType::i32, 1, 8), table = testing::f32(5, 4), y = testing::f32(2, 4);
  const OpMatrix untouched = y;
  Rows2 rows{{0, 0}, {0, 1}, {}, {}};
  for (const int token : {-1, 5}) {
    ids.set(0, 0, 1);
    ids.set(0, 1, token);
    const auto status =
        cpu::embedding(stream, rows.batch(), {y.matrix(), table.matrix(), ids.view<std::int32_t>()});
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.error().what.find("row 1 is token " + std::to_string(token)), std::string::npos)
        << status.error().what;
    EXPECT_EQ(y.row_bits(0), untouched.row_bits(0));
  }
}

TEST(GatherRows, CopiesRowsAndRefusesOthers) {
  std::mt19937 random(32);
  gpu::PooledHostStream stream(1);
  OpMatrix x = testing::random_f32(6, 9, random), y = testing::f32(3, 9);
  std::vector<std::int32_t> rows = {5, 0, 5};
  ASSERT_TRUE(cpu::gather_rows(stream, {y.matrix(), x.matrix(), {rows.data(), {3}}}).ok());
  EXPECT_EQ(y.row_bits(0), x.row_bits(5));
  EXPECT_EQ(y.row_bits(1), x.row_bits(0));
  EXPECT_EQ(y.row_bits(2), x.row_bits(5));
  EXPECT_TRUE(y.padding_untouched());
  for (const std::int32_t row : {-1, 6}) {
    rows[2] = row;
    const auto status = cpu::gather_rows(stream, {y.matrix(), x.matrix(), {rows.data(), {3}}});
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.error().what.find("rows[2] is " + std::to_string(row)), std::string::npos);
  }
}

TEST(Add, AddsInPlace) {
  std::mt19937 random(33);
  gpu::PooledHostStream stream(2);
  for (const std::int64_t cols : kCols) {
    OpMatrix y = testing::random_f32(4, cols, random), x = testing::random_f32(4, cols, random);
    const OpMatrix before = y;
    ASSERT_TRUE(cpu::add(stream, {y.matrix(), x.matrix()}).ok());
    for (std::int64_t r = 0; r < 4; ++r) {
      for (std::int64_t c = 0; c < cols; ++c) ASSERT_EQ(y.f32(r, c), before.f32(r, c) + x.f32(r, c));
    }
    EXPECT_TRUE(y.padding_untouched());
  }
}

TEST(ScaledSilu, AgreesWithDoublePrecisionAlsoInPlace) {
  std::mt19937 random(34);
  gpu::PooledHostStream stream(2);
  for (const std::int64_t cols : kCols) {
    OpMatrix x = testing::random_f32(4, cols, random, 8.0), y = testing::f32(4, cols);
    ASSERT_TRUE(cpu::scaled_silu(stream, {y.matrix(), x.matrix(), 0.25F}).ok());
    for (std::int64_t r = 0; r < 4; ++r) {
      for (std::int64_t c = 0; c < cols; ++c)
        ASSERT_NEAR(y.at(r, c), testing::silu_of(x.at(r, c) * 0.25), 1e-6 * std::abs(x.at(r, c)));
    }
    ASSERT_TRUE(cpu::scaled_silu(stream, {x.matrix(), x.matrix(), 0.25F}).ok());
    for (std::int64_t r = 0; r < 4; ++r) EXPECT_EQ(x.row_bits(r), y.row_bits(r));
    EXPECT_TRUE(x.padding_untouched() && y.padding_untouched());
  }
}

TEST(Swiglu, AgreesWithDoublePrecisionAlsoOverItsGateAndUp) {
  std::mt19937 random(35);
  gpu::PooledHostStream stream(2);
  for (const std::int64_t cols : kCols) {
    OpMatrix gate = testing::random_f32(4, cols, random, 4.0), up = testing::random_f32(4, cols, random),
             y = testing::f32(4, cols);
    ASSERT_TRUE(cpu::swiglu(stream, {y.matrix(), gate.matrix(), up.matrix()}).ok());
    for (std::int64_t r = 0; r < 4; ++r) {
      for (std::int64_t c = 0; c < cols; ++c) {
        const double exact = testing::silu_of(gate.at(r, c)) * up.at(r, c);
        ASSERT_NEAR(y.at(r, c), exact, 1e-6 * std::abs(exact) + 1e-9);
      }
    }
    OpMatrix over_gate = gate, over_up = up;
    ASSERT_TRUE(cpu::swiglu(stream, {over_gate.matrix(), over_gate.matrix(), up.matrix()}).ok());
    ASSERT_TRUE(cpu::swiglu(stream, {over_up.matrix(), gate.matrix(), over_up.matrix()}).ok());
    for (std::int64_t r = 0; r < 4; ++r) {
      EXPECT_EQ(over_gate.row_bits(r), y.row_bits(r));
      EXPECT_EQ(over_up.row_bits(r), y.row_bits(r));
    }
  }
}

TEST(Elementwise, ManyRowsGiveTheSameBitsOnAnyNumberOfWorkers) {
  std::mt19937 random(36);
  OpMatrix gate = testing::random_f32(300, 129, random), up = testing::random_f32(300, 129, random);
  gpu::PooledHostStream one(1), three(3);
  OpMatrix a = testing::f32(300, 129), b = testing::f32(300, 129);
  ASSERT_TRUE(cpu::swiglu(one, {a.matrix(), gate.matrix(), up.matrix()}).ok());
  ASSERT_TRUE(cpu::swiglu(three, {b.matrix(), gate.matrix(), up.matrix()}).ok());
  for (std::int64_t r = 0; r < 300; ++r) ASSERT_EQ(a.row_bits(r), b.row_bits(r));
}

}  // namespace
}  // namespace kernels
