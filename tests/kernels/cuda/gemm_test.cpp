#include "kernels/gemm.h"

#include <gmock/gmock.h>

#include "tests/device/test_device.h"

namespace kernels {
namespace {

using gpu::DType;
using testing::DeviceMatrix;
using ::testing::HasSubstr;
using testing::OpMatrix;
using testing::TestDevice;

struct ShapeOfProduct {
  std::int64_t rows, n, k;
};

/// Edges of tiles (16, 64, 128), of stages of K (64 bf16, 32 f32; up to six at once) and of 8 columns.
const std::vector<ShapeOfProduct>& edge_shapes() {
  static const std::vector<ShapeOfProduct> shapes = {
      {1, 1, 8},       {1, 64, 64},  {2, 3, 16},    {15, 48, 56},  {16, 63, 72},   {17, 65, 24},
      {33, 8, 192},    {63, 20, 64}, {64, 130, 8},  {65, 128, 32}, {127, 127, 40}, {128, 4, 264},
      {129, 129, 136}, {3, 20, 520}, {16, 70, 456}, {40, 24, 392}};
  return shapes;
}

OpMatrix operand(DType dtype, std::int64_t rows, std::int64_t cols, unsigned seed) {
  std::mt19937 random(seed);
  return OpMatrix::random(dtype, rows, cols, random);
}

/// What the CPU makes of the same numbers, widened.
OpMatrix expected(const OpMatrix& x, OpMatrix w) {
  OpMatrix wide = x.converted(DType::f32);
  OpMatrix y = testing::f32(x.rows(), w.rows());
  TestDevice& test = *TestDevice::get();
  EXPECT_TRUE(test.cpu().gemm(test.host_stream(), {y.matrix(), wide.matrix(), {w.matrix()}}).ok());
  return y;
}

/// Ops of their own, so that refusals stick to nobody else's products.
struct OwnOps {
  std::vector<std::string> warnings;
  std::unique_ptr<Ops> ops;

  OwnOps()
      : ops(TestDevice::get()->make_ops([this](const std::string& line) { warnings.push_back(line); })) {}
};

/// What an f32 result of bf16 operands may differ by. A tensor core adds sixteen products at a time to its
/// sum and cuts the result off instead of rounding it: K / 16 steps lose half a unit in the last place each,
/// always towards zero, so that losses add up. Half a unit is 0.36 * 2^-23 of a sum on average, and the sum
/// is on average two thirds of what it becomes: K / 16 * 2^-25. Measured: 0.6 of that, for the library's
/// kernels and our own, growing with K as it should.
double tensor_core_error(std::int64_t k) {
  return testing::kF32Error + static_cast<double>(gpu::ceil_div(k, 16)) * 0x1p-25;
}

/// Operands of one type, and what the CPU makes of them.
struct Product {
  ShapeOfProduct shape;
  DType type;
  OpMatrix x, w, want;

  Product(const ShapeOfProduct& s, DType x_type)
      : shape(s),
        type(x_type),
        x(operand(x_type, s.rows, s.k, 1)),
        w(operand(x_type, s.n, s.k, 2)),
        want(expected(x, w)) {}

  void expect_from(Ops& ops, DType y_type) const {
    SCOPED_TRACE(::testing::Message() << shape.rows << "x" << shape.n << "x" << shape.k << " "
                                      << gpu::to_string(type) << " to " << gpu::to_string(y_type));
    DeviceMatrix dx(x), dw(w), dy(OpMatrix(y_type, shape.rows, shape.n));
    TestDevice& test = *TestDevice::get();
    const auto done =
        ops.gemm(test.stream(), {dy.matrix(), dx.matrix(), {dw.matrix()}, Form::decode, "test"});
    ASSERT_TRUE(done.ok()) << done.error().what;
    const OpMatrix& y = dy.download();
    const double f32_error = type == DType::f32 ? testing::kF32Error : tensor_core_error(shape.k);
    EXPECT_LE(testing::relative_error(y, want), y_type == DType::f32 ? f32_error : testing::kBf16Error);
    EXPECT_TRUE(y.padding_untouched());
  }
};

void expect_product(Ops& ops, const ShapeOfProduct& shape, DType x_type, DType y_type) {
  Product(shape, x_type).expect_from(ops, y_type);
}

TEST(CudaGemm, LibraryProductsAgreeWithTheCpu) {
  REQUIRE_DEVICE();
  OwnOps own;
  for (const ShapeOfProduct& shape : edge_shapes()) {
    for (const DType y_type : {DType::bf16, DType::f32}) expect_product(*own.ops, shape, DType::bf16, y_type);
  }
}

TEST(CudaGemm, OwnBf16ProductsAgreeWithTheCpu) {
  REQUIRE_DEVICE();
  OwnOps own;
  own.ops->refuse_products(1 << 20);
  for (const ShapeOfProduct& shape : edge_shapes()) {
    for (const DType y_type : {DType::bf16, DType::f32}) expect_product(*own.ops, shape, DType::bf16, y_type);
  }
  // Single columns are never the library's.
  const auto asked = std::count_if(edge_shapes().begin(), edge_shapes().end(),
                                   [](const ShapeOfProduct& shape) { return shape.n > 1; });
  EXPECT_EQ(own.ops->num_fallbacks(), 2 * static_cast<std::uint64_t>(asked));
}

TEST(CudaGemm, F32ProductsAgreeWithTheCpu) {
  REQUIRE_DEVICE();
  TestDevice& test = *TestDevice::get();
  for (const ShapeOfProduct& shape : edge_shapes()) expect_product(test.ops(), shape, DType::f32, DType::f32);
}

TEST(CudaGemm, LayerShapesAgreeWithTheCpu) {
  REQUIRE_DEVICE();
  TestDevice& test = *TestDevice::get();
  if (test.small()) GTEST_SKIP() << "too large for small tests";
  OwnOps own;
  own.ops->refuse_products(1 << 20);
  for (const ShapeOfProduct& shape : {ShapeOfProduct{5, 2560, 6144}, {130, 320, 10240}, {300, 2048, 2560}}) {
    const Product bf16(shape, DType::bf16);
    for (const DType y_type : {DType::bf16, DType::f32}) {
      bf16.expect_from(test.ops(), y_type);
      bf16.expect_from(*own.ops, y_type);
    }
    Product(shape, DType::f32).expect_from(test.ops(), DType::f32);
  }
}

TEST(CudaGemm, AGroupIsItsProductsBitForBit) {
  REQUIRE_DEVICE();
  TestDevice& test = *TestDevice::get();
  DeviceMatrix x(operand(DType::bf16, 19, 72, 3)), w1(operand(DType::bf16, 48, 72, 4)),
      w2(operand(DType::bf16, 20, 72, 5));
  DeviceMatrix y1(OpMatrix(DType::bf16, 19, 48)), alone1(OpMatrix(DType::bf16, 19, 48));
  DeviceMatrix y2(OpMatrix(DType::f32, 19, 20)), alone2(OpMatrix(DType::f32, 19, 20));
  const GemmGroupArgs::Output outputs[] = {{y1.matrix(), {w1.matrix()}, "one"},
                                           {y2.matrix(), {w2.matrix()}, "two"}};
  ASSERT_TRUE(test.ops().gemm_group(test.stream(), {x.matrix(), outputs, Form::prefill}).ok());
  ASSERT_TRUE(test.ops().gemm(test.stream(), {alone1.matrix(), x.matrix(), {w1.matrix()}}).ok());
  ASSERT_TRUE(test.ops().gemm(test.stream(), {alone2.matrix(), x.matrix(), {w2.matrix()}}).ok());
  const OpMatrix one = y1.download(), two = y2.download();
  const OpMatrix want1 = alone1.download(), want2 = alone2.download();
  for (std::int64_t r = 0; r < 19; ++r) {
    for (std::int64_t c = 0; c < 48; ++c) ASSERT_EQ(one.at(r, c), want1.at(r, c)) << r << "," << c;
    for (std::int64_t c = 0; c < 20; ++c) ASSERT_EQ(two.at(r, c), want2.at(r, c)) << r << "," << c;
  }
}

TEST(CudaGemm, NoRowsTouchNothing) {
  REQUIRE_DEVICE();
  TestDevice& test = *TestDevice::get();
  DeviceMatrix x(operand(DType::bf16, 4, 16, 1)), w(operand(DType::bf16, 8, 16, 1)),
      y(OpMatrix(DType::bf16, 4, 8));
  const auto done = test.ops().gemm(
      test.stream(),
      {y.matrix().first_rows({0}), gpu::ConstMatrix(x.matrix()).first_rows({0}), {w.matrix()}});
  EXPECT_TRUE(done.ok());
  for (std::int64_t r = 0; r < 4; ++r) EXPECT_TRUE(std::isnan(y.download().at(r, 0)));
}

/// Nobody steps over the pitch of one row, so it needs no boundary.
TEST(CudaGemm, OneRowOfAnyPitchAgreesWithTheCpu) {
  REQUIRE_DEVICE();
  TestDevice& test = *TestDevice::get();
  OwnOps own;
  own.ops->refuse_products(1);
  for (Ops* ops : {&test.ops(), own.ops.get()}) {
    const OpMatrix x = operand(DType::bf16, 1, 40, 1), w = operand(DType::bf16, 1, 40, 2);
    DeviceMatrix dx(x), dw(w), dy(OpMatrix(DType::f32, 1, 1));
    gpu::Matrix x_row = dx.matrix(), w_row = dw.matrix(), y_row = dy.matrix();
    x_row.pitch = Elements{41};
    w_row.pitch = Elements{43};
    y_row.pitch = Elements{1};
    const auto done = ops->gemm(test.stream(), {y_row, x_row, {w_row}});
    ASSERT_TRUE(done.ok()) << done.error().what;
    EXPECT_LE(testing::relative_error(dy.download(), expected(x, w)), testing::kF32Error);
  }
}

TEST(CudaGemm, ARefusalIsSaidOnceCountedAndSticksToTheShape) {
  REQUIRE_DEVICE();
  OwnOps own;
  own.ops->refuse_products(1);
  expect_product(*own.ops, {5, 24, 40}, DType::bf16, DType::bf16);
  ASSERT_EQ(own.warnings.size(), 1U);
  EXPECT_THAT(own.warnings[0], HasSubstr("gemm test"));
  EXPECT_THAT(own.warnings[0], HasSubstr("CUBLAS_STATUS_NOT_SUPPORTED"));
  for (const char* part : {"M 5", "N 24", "K 40", "y bf16", "alignment", "x ", "w "}) {
    EXPECT_THAT(own.warnings[0], HasSubstr(part));
  }
  EXPECT_EQ(own.ops->num_fallbacks(), 1U);
  expect_product(*own.ops, {9, 24, 40}, DType::bf16, DType::bf16);  // the same weight, other rows
  EXPECT_EQ(own.ops->num_fallbacks(), 2U);
  expect_product(*own.ops, {9, 24, 40}, DType::bf16, DType::f32);  // another y
  expect_product(*own.ops, {9, 32, 40}, DType::bf16, DType::bf16);
  EXPECT_EQ(own.ops->num_fallbacks(), 2U);
  EXPECT_EQ(own.warnings.size(), 1U);
}

TEST(CudaGemm, ProductsThatTheBackendDoesNotHaveAreRefusedByName) {
  REQUIRE_DEVICE();
  TestDevice& test = *TestDevice::get();
  const auto answer = [&](DType x, DType w, DType y) {
    DeviceMatrix dx(OpMatrix(x, 2, 16)), dw(OpMatrix(w, 8, 16)), dy(OpMatrix(y, 2, 8));
    const auto done =
        test.ops().gemm(test.stream(), {dy.matrix(), dx.matrix(), {dw.matrix()}, Form::decode, "qkv"});
    if (done.ok()) return std::string("done");
    EXPECT_EQ(done.error().kind, gpu::DeviceError::Kind::refused);
    return done.error().what;
  };
  EXPECT_THAT(answer(DType::bf16, DType::f32, DType::bf16), HasSubstr("gemm qkv: x bf16 with w f32"));
  EXPECT_THAT(answer(DType::bf16, DType::f16, DType::bf16), HasSubstr("gemm qkv: x bf16 with w f16"));
  EXPECT_THAT(answer(DType::f32, DType::bf16, DType::f32), HasSubstr("gemm qkv: x f32 with w bf16"));
  EXPECT_THAT(answer(DType::f32, DType::f32, DType::bf16), HasSubstr("x f32 with w f32 into y bf16"));

  DeviceMatrix x(OpMatrix(DType::bf16, 2, 32)), y(OpMatrix(DType::bf16, 2, 16)),
      blocks(OpMatrix(DType::u8, 16, 64));
  QuantizedMatrix w;
  w.base = blocks.matrix().base;
  w.rows = Rows{16};
  w.cols = Elements{32};
  const auto done = test.ops().gemm(test.stream(), {y.matrix(), x.matrix(), {w}, Form::decode, "qkv"});
  ASSERT_FALSE(done.ok());
  EXPECT_THAT(done.error().what, HasSubstr("gemm qkv: x bf16 with w q8_0"));
}

/// Base and pitch of every operand; "row 1" is what a pitch puts off its boundary.
TEST(CudaGemm, EveryOperandOffItsBoundaryIsNamedWithItsNumbers) {
  REQUIRE_DEVICE();
  TestDevice& test = *TestDevice::get();
  for (const DType dtype : {DType::bf16, DType::f32}) {
    DeviceMatrix x(operand(dtype, 3, 16, 1)), w(operand(dtype, 8, 16, 1)), y(OpMatrix(dtype, 3, 8));
    const auto answer = [&](auto change) {
      GemmArgs args{y.matrix(), x.matrix(), {w.matrix()}, Form::decode, "out_proj"};
      change(args);
      const auto done = test.ops().gemm(test.stream(), args);
      return done.ok() ? std::string("done") : done.error().what;
    };
    EXPECT_EQ(answer([](GemmArgs&) {}), "done");
    EXPECT_EQ(answer([](GemmArgs& a) { a.x.base += 8; }), "gemm out_proj: x row 0 is not 16-byte aligned");
    EXPECT_EQ(answer([](GemmArgs& a) { a.w.matrix.base += 8; }),
              "gemm out_proj: w row 0 is not 16-byte aligned");
    EXPECT_EQ(answer([](GemmArgs& a) { a.y.base += 8; }), "gemm out_proj: y row 0 is not 16-byte aligned");
    EXPECT_EQ(answer([](GemmArgs& a) { a.x.pitch = Elements{18}; }),
              "gemm out_proj: x row 1 is not 16-byte aligned: pitch 18");
    EXPECT_EQ(answer([](GemmArgs& a) { a.w.matrix.pitch = Elements{18}; }),
              "gemm out_proj: w row 1 is not 16-byte aligned: pitch 18");
    EXPECT_EQ(answer([](GemmArgs& a) { a.y.pitch = Elements{10}; }),
              "gemm out_proj: y row 1 is not 16-byte aligned: pitch 10");
  }
  EXPECT_TRUE(test.stream().synchronize().ok());
}

}  // namespace
}  // namespace kernels
