// Operations other than gemm that read quantised weights: tables and experts.
#include <gtest/gtest.h>

#include <numeric>

#include "kernels/check_args.h"
#include "kernels/cpu/cpu_ops.h"
#include "tests/kernels/cpu/every_target.h"
#include "tests/kernels/cpu/op_matrix.h"
#include "tests/kernels/quantized_blocks.h"

namespace kernels {
namespace {

using gpu::DType;
using testing::kQuantFormats;
using testing::OpMatrix;
using testing::RandomQuantized;

TEST(QuantizedTables, RowsAreTheNumbersThatTheBlocksStandForInEitherLayout) {
  std::mt19937 random(41);
  gpu::PooledHostStream stream(2);
  for (const QuantFormat format : kQuantFormats) {
    const RandomQuantized source(format, 37, 256, random);
    for (const QuantizedMatrix& table : {source.file(), source.packed()}) {
      std::vector<std::int64_t> rows = {36, 0, 16, 17, 5, 36};
      OpMatrix gathered = testing::f32(3, 512);
      const GatherTableArgs gather{gathered.matrix(), table, {rows.data(), {3}, {2}, {2}}};
      ASSERT_FALSE(check_args(gather));
      ASSERT_TRUE(cpu::gather_table(stream, gather).ok());

      OpMatrix ids(DType::i32, 1, 3), embedded = testing::f32(3, 256);
      for (int i = 0; i < 3; ++i) ids.set(0, i, static_cast<double>(rows[static_cast<std::size_t>(2 * i)]));
      std::vector<std::int32_t> zeros(3, 0), steps = {0, 1, 2}, ones(3, 1);
      RowBatch batch{Form::decode,
                     {3},
                     {zeros.data(), {3}},
                     {steps.data(), {3}},
                     3,
                     {zeros.data(), {3}},
                     {steps.data(), {3}},
                     {ones.data(), {3}},
                     1,
                     2};
      const EmbeddingArgs embedding{embedded.matrix(), table, ids.view<std::int32_t>()};
      ASSERT_FALSE(check_args(batch, embedding));
      ASSERT_TRUE(cpu::embedding(stream, batch, embedding).ok());

      for (std::int64_t r = 0; r < 3; ++r) {
        for (std::int64_t c = 0; c < 512; ++c) {
          const std::int64_t row = rows[static_cast<std::size_t>(2 * r + c / 256)];
          ASSERT_EQ(gathered.f32(r, c), source.at(row, c % 256)) << to_string(format);
        }
        for (std::int64_t c = 0; c < 256; ++c) {
          ASSERT_EQ(embedded.f32(r, c), source.at(rows[static_cast<std::size_t>(2 * r)], c))
              << to_string(format);
        }
      }
      EXPECT_TRUE(gathered.padding_untouched() && embedded.padding_untouched());
    }
  }
}

TEST(QuantizedTables, AnIdOutsideTheTableIsRefused) {
  std::mt19937 random(42);
  gpu::PooledHostStream stream(1);
  const RandomQuantized source(QuantFormat::q8_0, 4, 32, random);
  std::int64_t row = 4;
  OpMatrix y = testing::f32(1, 32);
  EXPECT_FALSE(cpu::gather_table(stream, {y.matrix(), source.file(), {&row, {1}, {1}, {1}}}).ok());
}

/// A weight of its own, made of rows of another.
struct Rows16 {
  Rows16(const RandomQuantized& source, QuantFormat format, std::int64_t first, std::int64_t rows)
      : lines(static_cast<std::size_t>(
            quantized_bytes(format, QuantizedMatrix::Layout::packed, {rows}, {source.cols()}).n / 64 + 1)),
        matrix{lines.front().bytes, format, QuantizedMatrix::Layout::packed, {rows}, {source.cols()}} {
    for (std::int64_t r = 0; r < rows; ++r) {
      place_row(matrix, lines.front().bytes, {r}, source.file_row(first + r));
    }
  }
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> lines;
  QuantizedMatrix matrix;
};

struct Experts {
  static constexpr std::int64_t kExperts = 5, kTop = 2;
  QuantFormat format;
  std::int64_t hidden, inner;
  RandomQuantized gate_up, down;

  Experts(QuantFormat f, std::int64_t h, std::int64_t i, std::mt19937& random)
      : format(f),
        hidden(h),
        inner(i),
        gate_up(f, kExperts * 2 * i, h, random),
        down(f, kExperts * h, i, random) {}

  OpMatrix run(gpu::HostStream& stream, gpu::ConstMatrix x, const std::int32_t* ids,
               const float* weights) const {
    const std::int64_t rows = x.rows.n;
    OpMatrix y = testing::f32(rows, hidden), mid = testing::f32(rows * kTop, 2 * inner),
             out = testing::f32(rows * kTop, hidden);
    std::vector<std::int32_t> order(static_cast<std::size_t>(rows * kTop + kExperts + 1));
    MoeExpertsArgs args;
    args.y = y.matrix();
    args.x = x;
    args.ids = {ids, {rows}, {kTop}, {kTop}};
    args.weights = {weights, {rows}, {kTop}, {kTop}};
    args.gate_up = gate_up.packed();
    args.down = down.packed();
    args.num_experts = kExperts;
    args.intermediate = static_cast<std::int32_t>(inner);
    args.hidden = mid.matrix();
    args.out = out.matrix();
    args.order = {order.data(), {static_cast<std::int64_t>(order.size())}};
    EXPECT_FALSE(check_args(args));
    EXPECT_TRUE(cpu::moe_experts(stream, args).ok());
    EXPECT_TRUE(y.padding_untouched() && mid.padding_untouched() && out.padding_untouched());
    return y;
  }

  /// One row as single products of each chosen expert's own weights.
  std::vector<std::uint32_t> as_products(gpu::HostStream& stream, gpu::ConstMatrix x, const std::int32_t* ids,
                                         const float* weights) const {
    OpMatrix y = testing::f32(1, hidden), gate = testing::f32(1, inner), up = gate, out = y;
    for (std::int64_t c = 0; c < hidden; ++c) y.set(0, c, 0.0);
    for (std::int64_t s = 0; s < kTop; ++s) {
      const std::int64_t first = ids[s] * 2 * inner;
      const Rows16 gate_w(gate_up, format, first, inner), up_w(gate_up, format, first + inner, inner),
          down_w(down, format, ids[s] * hidden, hidden);
      EXPECT_TRUE(cpu::gemm(stream, {gate.matrix(), x, gate_w.matrix}).ok());
      EXPECT_TRUE(cpu::gemm(stream, {up.matrix(), x, up_w.matrix}).ok());
      EXPECT_TRUE(cpu::swiglu(stream, {gate.matrix(), gate.matrix(), up.matrix()}).ok());
      EXPECT_TRUE(cpu::gemm(stream, {out.matrix(), gate.matrix(), down_w.matrix}).ok());
      for (std::int64_t c = 0; c < hidden; ++c) {
        y.set(0, c, static_cast<double>(std::fma(weights[s], out.f32(0, c), y.f32(0, c))));
      }
    }
    return y.row_bits(0);
  }
};

/// Experts of several sizes and formats.
TEST(QuantizedExperts, ARowIsTheProductsOfItsExpertsBitForBitInAnyBatchOnEveryTarget) {
  std::mt19937 random(43);
  struct Case {
    QuantFormat format;
    std::int64_t hidden, inner;
  };
  for (const Case& c : {Case{QuantFormat::q8_0, 64, 32}, Case{QuantFormat::q4_1, 96, 160},
                        Case{QuantFormat::q6_k, 256, 256}, Case{QuantFormat::q4_0, 32, 96}}) {
    const Experts experts(c.format, c.hidden, c.inner, random);
    constexpr std::int64_t kRows = 75;
    OpMatrix x = testing::random_f32(kRows, c.hidden, random, 0.1);
    std::vector<std::int32_t> ids;
    std::vector<float> weights;
    for (std::int64_t r = 0; r < kRows; ++r) {
      const auto one = static_cast<std::int32_t>(random() % 5);
      ids.insert(ids.end(), {one, (one + 1 + static_cast<std::int32_t>(random() % 4)) % 5});
      weights.insert(weights.end(), {0.625F, 0.375F});
    }
    gpu::PooledHostStream one(1);
    std::vector<std::vector<std::uint32_t>> alone;
    for (std::int64_t r = 0; r < kRows; ++r) {
      alone.push_back(experts.as_products(one, gpu::ConstMatrix(x.matrix()).from_row({r}).first_rows({1}),
                                          &ids[static_cast<std::size_t>(2 * r)],
                                          &weights[static_cast<std::size_t>(2 * r)]));
    }
    testing::for_every_target([&](const char* target) {
      for (const int workers : {1, 3}) {
        gpu::PooledHostStream stream(workers);
        for (const std::int64_t rows : {std::int64_t{1}, std::int64_t{7}, kRows}) {
          const OpMatrix y = experts.run(stream, gpu::ConstMatrix(x.matrix()).first_rows({rows}), ids.data(),
                                         weights.data());
          for (std::int64_t r = 0; r < rows; ++r) {
            ASSERT_EQ(y.row_bits(r), alone[static_cast<std::size_t>(r)])
                << to_string(c.format) << " row " << r << " of " << rows << " " << target;
          }
        }
      }
    });
  }
}

TEST(QuantizedArgs, RefusalsNameOperandAndNumbers) {
  std::mt19937 random(44);
  const RandomQuantized w(QuantFormat::q4_k, 24, 256, random);
  OpMatrix x = testing::random_f32(3, 256, random), y = testing::f32(3, 24);
  const auto refusal = [&](const auto& change) {
    GemmArgs args{y.matrix(), x.matrix(), w.packed(), Form::decode, "qkv"};
    change(args);
    const Refusal refused = check_args(args);
    return refused ? refused->what : std::string();
  };
  EXPECT_EQ(refusal([](GemmArgs&) {}), "");
  EXPECT_EQ(refusal([&](GemmArgs& a) { a.w = w.file(); }), "gemm qkv: w is quantised and not packed");
  EXPECT_EQ(refusal([](GemmArgs& a) { a.w.quantized.rows = {23}; }),
            "gemm qkv: y is [3, 24], expected [3, 23]");
  EXPECT_EQ(refusal([](GemmArgs& a) { a.w.quantized.cols = {128}; }),
            "gemm qkv: w is [24, 128], expected [24, 256]");
  EXPECT_EQ(refusal([](GemmArgs& a) { a.w.quantized.cols = a.x.cols = {128}; }),
            "gemm qkv: w has 128 columns, expected a multiple of 256 (q4_k)");
  EXPECT_EQ(refusal([](GemmArgs& a) { a.w.quantized.base += 8; }), "gemm qkv: w is not 16-byte aligned");
}

}  // namespace
}  // namespace kernels
