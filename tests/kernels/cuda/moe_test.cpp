#include "kernels/moe.h"

#include <gmock/gmock.h>

#include "tests/device/test_device.h"

namespace kernels {
namespace {

using gpu::DType;
using testing::DeviceMatrix;
using testing::DeviceVector;
using ::testing::HasSubstr;
using testing::OpMatrix;
using testing::TestDevice;

/// Logits on a grid of 1/64: equal ones are common, others are told apart by any exp.
OpMatrix coarse_logits(DType dtype, std::int64_t rows, std::int64_t experts, unsigned seed) {
  std::mt19937 random(seed);
  OpMatrix logits(dtype, rows, experts);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t e = 0; e < experts; ++e) logits.set(r, e, static_cast<double>(random() % 256) / 64.0);
  }
  return logits;
}

void expect_routed(const OpMatrix& logits, std::int64_t top_k, bool renormalize) {
  SCOPED_TRACE(::testing::Message() << logits.rows() << " rows, " << top_k << " of " << logits.cols());
  TestDevice& test = *TestDevice::get();
  OpMatrix wide = logits.converted(DType::f32), ids(DType::i32, logits.rows(), top_k),
           weights = testing::f32(logits.rows(), top_k);
  ASSERT_TRUE(test.cpu()
                  .moe_route(test.host_stream(),
                             {ids.view<std::int32_t>(), weights.view<float>(), wide.matrix(), renormalize})
                  .ok());
  DeviceMatrix d_logits(logits), d_ids(OpMatrix(DType::i32, logits.rows(), top_k)),
      d_weights(testing::f32(logits.rows(), top_k));
  ASSERT_TRUE(test.ops()
                  .moe_route(test.stream(), {d_ids.view<std::int32_t>(), d_weights.view<float>(),
                                             d_logits.matrix(), renormalize})
                  .ok());
  for (std::int64_t r = 0; r < logits.rows(); ++r) {
    for (std::int64_t s = 0; s < top_k; ++s) {
      EXPECT_EQ(d_ids.download().at(r, s), ids.at(r, s)) << r << "," << s;
    }
  }
  EXPECT_LE(testing::relative_error(d_weights.download(), weights), testing::kF32Error);
  EXPECT_TRUE(d_ids.download().padding_untouched() && d_weights.download().padding_untouched());
}

TEST(CudaMoeRoute, AgreesWithTheCpuAndGivesTiesToTheLowerExpert) {
  REQUIRE_DEVICE();
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const bool renormalize : {true, false}) {
      expect_routed(coarse_logits(dtype, 9, 512, 1), 10, renormalize);
      expect_routed(coarse_logits(dtype, 8, 40, 2), 16, renormalize);
      expect_routed(coarse_logits(dtype, 7, 5, 3), 5, renormalize);
      expect_routed(coarse_logits(dtype, 1, 1, 4), 1, renormalize);
      expect_routed(coarse_logits(dtype, 3, 33, 5), 2, renormalize);
    }
  }
}

TEST(CudaMoeRoute, NanSortsLastAndEverySlotHoldsARealExpert) {
  REQUIRE_DEVICE();
  TestDevice& test = *TestDevice::get();
  OpMatrix logits = testing::f32(2, 6);
  for (std::int64_t e = 0; e < 6; ++e) {
    logits.set(0, e, std::nan(""));
    logits.set(1, e, e == 2 ? 1.0 : -static_cast<double>(e));
  }
  DeviceMatrix d_logits(logits), ids(OpMatrix(DType::i32, 2, 3)), weights(testing::f32(2, 3));
  ASSERT_TRUE(test.ops()
                  .moe_route(test.stream(),
                             {ids.view<std::int32_t>(), weights.view<float>(), d_logits.matrix(), true})
                  .ok());
  const OpMatrix& got = ids.download();
  for (std::int64_t s = 0; s < 3; ++s) {
    EXPECT_EQ(got.at(0, s), s);
    EXPECT_TRUE(std::isnan(weights.download().at(0, s)));
  }
  EXPECT_EQ(got.at(1, 0), 2);
  EXPECT_EQ(got.at(1, 1), 0);
  EXPECT_EQ(got.at(1, 2), 1);
}

TEST(CudaMoeRoute, MoreExpertsThanARowHoldsAreRefusedWithNumbers) {
  REQUIRE_DEVICE();
  TestDevice& test = *TestDevice::get();
  DeviceMatrix logits(testing::f32(1, 513)), ids(OpMatrix(DType::i32, 1, 2)), weights(testing::f32(1, 2));
  const auto done = test.ops().moe_route(
      test.stream(), {ids.view<std::int32_t>(), weights.view<float>(), logits.matrix(), true});
  ASSERT_FALSE(done.ok());
  EXPECT_THAT(done.error().what, HasSubstr("moe_route: top 2 of 513 experts"));
}

struct MoeShape {
  std::int64_t rows, hidden, inner, experts, top_k;
};

/// Weights and inputs of one call, on the host; ids are drawn below `chosen` experts.
struct MoeCase {
  MoeShape shape;
  OpMatrix x, ids, weights, gate_up, down;

  MoeCase(const MoeShape& s, DType dtype, std::int64_t chosen, unsigned seed)
      : shape(s),
        x(dtype, s.rows, s.hidden),
        ids(DType::i32, s.rows, s.top_k),
        weights(DType::f32, s.rows, s.top_k),
        gate_up(dtype, 2 * s.experts * s.inner, s.hidden),
        down(dtype, s.experts * s.hidden, s.inner) {
    std::mt19937 random(seed);
    x = OpMatrix::random(dtype, s.rows, s.hidden, random);
    gate_up = OpMatrix::random(dtype, 2 * s.experts * s.inner, s.hidden, random,
                               1.0 / std::sqrt(static_cast<double>(s.hidden)));
    down = OpMatrix::random(dtype, s.experts * s.hidden, s.inner, random,
                            1.0 / std::sqrt(static_cast<double>(s.inner)));
    for (std::int64_t r = 0; r < s.rows; ++r) {
      for (std::int64_t k = 0; k < s.top_k; ++k) {
        ids.set(r, k, static_cast<double>(random() % static_cast<unsigned long>(chosen)));
        weights.set(r, k, static_cast<double>(random() % 1000) / 1000.0);
      }
    }
  }

  MoeExpertsArgs args(gpu::Matrix y, gpu::ConstMatrix in, gpu::MatrixView<const std::int32_t> chosen,
                      gpu::MatrixView<const float> scales, const Weight& up, const Weight& out_weight,
                      gpu::Matrix hidden, gpu::Matrix out, gpu::VectorView<std::int32_t> order) const {
    MoeExpertsArgs args;
    args.y = y;
    args.x = in;
    args.ids = chosen;
    args.weights = scales;
    args.gate_up = up;
    args.down = out_weight;
    args.num_experts = static_cast<std::int32_t>(shape.experts);
    args.intermediate = static_cast<std::int32_t>(shape.inner);
    args.hidden = hidden;
    args.out = out;
    args.order = order;
    return args;
  }
  std::size_t order_size() const {
    return static_cast<std::size_t>(shape.rows * shape.top_k + shape.experts + 1);
  }

  OpMatrix on_cpu() {
    TestDevice& test = *TestDevice::get();
    OpMatrix wide = x.converted(DType::f32), y = testing::f32(shape.rows, shape.hidden),
             hidden = testing::f32(shape.rows * shape.top_k, 2 * shape.inner),
             out = testing::f32(shape.rows * shape.top_k, shape.hidden);
    std::vector<std::int32_t> order(order_size());
    EXPECT_TRUE(
        test.cpu()
            .moe_experts(test.host_stream(),
                         args(y.matrix(), wide.matrix(), ids.view<std::int32_t>(), weights.view<float>(),
                              gate_up.matrix(), down.matrix(), hidden.matrix(), out.matrix(),
                              {order.data(), {static_cast<std::int64_t>(order.size())}}))
            .ok());
    return y;
  }
};

/// One case on the device.
struct MoeOnDevice {
  MoeCase& host;
  DeviceMatrix x, ids, weights, gate_up, down, y, hidden, out;
  DeviceVector<std::int32_t> order;

  explicit MoeOnDevice(MoeCase& c)
      : host(c),
        x(c.x),
        ids(c.ids),
        weights(c.weights),
        gate_up(c.gate_up),
        down(c.down),
        y(OpMatrix(dtype(), c.shape.rows, c.shape.hidden)),
        hidden(OpMatrix(dtype(), c.shape.rows * c.shape.top_k, 2 * c.shape.inner)),
        out(OpMatrix(dtype(), c.shape.rows * c.shape.top_k, c.shape.hidden)),
        order(std::vector<std::int32_t>(c.order_size(), -1)) {}

  DType dtype() { return host.x.matrix().dtype; }
  MoeExpertsArgs args() {
    return host.args(y.matrix(), x.matrix(), ids.view<std::int32_t>(), weights.view<float>(),
                     gate_up.matrix(), down.matrix(), hidden.matrix(), out.matrix(), order.view());
  }
  gpu::Status run() {
    TestDevice& test = *TestDevice::get();
    return test.ops().moe_experts(test.stream(), args());
  }
};

void expect_experts(const MoeShape& shape, DType dtype, std::int64_t chosen) {
  SCOPED_TRACE(::testing::Message() << shape.rows << " rows, " << shape.hidden << "x" << shape.inner << ", "
                                    << shape.top_k << " of " << chosen << " of " << shape.experts << " "
                                    << gpu::to_string(dtype));
  MoeCase host(shape, dtype, chosen, 7);
  MoeOnDevice device(host);
  const auto done = device.run();
  ASSERT_TRUE(done.ok()) << done.error().what;
  EXPECT_LE(testing::relative_error(device.y.download(), host.on_cpu()),
            dtype == DType::f32 ? testing::kF32Error : testing::kBf16Error);
  EXPECT_TRUE(device.y.download().padding_untouched());
  EXPECT_TRUE(device.hidden.download().padding_untouched());
  EXPECT_TRUE(device.out.download().padding_untouched());
}

TEST(CudaMoeExperts, AgreeWithTheCpu) {
  REQUIRE_DEVICE();
  for (const DType dtype : {DType::f32, DType::bf16}) {
    expect_experts({1, 64, 24, 4, 2}, dtype, 4);
    expect_experts({5, 40, 8, 19, 3}, dtype, 19);  // experts that nobody chose, no multiple of eight
    expect_experts({33, 72, 40, 5, 4}, dtype, 2);  // two experts take everything: several tiles
    expect_experts({3, 520, 72, 3, 2}, dtype, 3);  // more stages of K than are under way at once
    expect_experts({17, 32, 16, 1, 1}, dtype, 1);
    expect_experts({40, 16, 16, 70, 2}, dtype, 70);
  }
}

/// Rows choose the shape of tiles: few, some and many pairs an expert.
TEST(CudaMoeExperts, AgreeWithTheCpuForEveryTile) {
  REQUIRE_DEVICE();
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const std::int64_t rows : {8, 15, 16, 17, 63, 65, 129})
      expect_experts({rows, 24, 8, 2, 2}, dtype, 2);
  }
}

TEST(CudaMoeExperts, LayerShapesAgreeWithTheCpu) {
  REQUIRE_DEVICE();
  if (TestDevice::get()->small()) GTEST_SKIP() << "too large for small tests";
  expect_experts({3, 2560, 640, 6, 4}, DType::bf16, 6);
  expect_experts({300, 2560, 640, 4, 3}, DType::bf16, 4);
  expect_experts({20, 2048, 512, 4, 3}, DType::f32, 4);
}

TEST(CudaMoeExperts, TheOrderIsStableAndByExpert) {
  REQUIRE_DEVICE();
  MoeCase host({37, 16, 8, 21, 5}, DType::f32, 21, 9);
  MoeOnDevice device(host);
  ASSERT_TRUE(device.run().ok());
  const std::vector<std::int32_t>& order = device.order.download();
  std::size_t at = 22;
  for (std::int32_t e = 0; e < 21; ++e) {
    EXPECT_EQ(order[static_cast<std::size_t>(e)], static_cast<std::int32_t>(at) - 22) << e;
    for (std::int64_t pair = 0; pair < 37 * 5; ++pair) {
      if (host.ids.at(pair / 5, pair % 5) == e) {
        EXPECT_EQ(order[at++], pair);
      }
    }
  }
  EXPECT_EQ(order[21], 37 * 5);
}

TEST(CudaMoeExperts, AnExpertThatDoesNotExistIsReportedAndTheNextStepWorks) {
  REQUIRE_DEVICE();
  TestDevice& test = *TestDevice::get();
  for (const std::int32_t wrong : {-1, 3, 7, 1 << 30}) {
    MoeCase host({4, 16, 8, 3, 2}, DType::bf16, 3, 11);
    MoeCase broken = host;
    broken.ids.set(2, 1, wrong);
    {
      MoeOnDevice device(broken);
      ASSERT_TRUE(device.run().ok());
      const auto done = test.stream().synchronize();
      ASSERT_FALSE(done.ok());
      EXPECT_EQ(done.error().kind, gpu::DeviceError::Kind::refused);
      EXPECT_THAT(done.error().what, HasSubstr(std::to_string(wrong)));
      EXPECT_THAT(done.error().what, HasSubstr("2"));
    }
    MoeOnDevice device(host);
    ASSERT_TRUE(device.run().ok());
    EXPECT_LE(testing::relative_error(device.y.download(), host.on_cpu()), testing::kBf16Error);
  }
}

TEST(CudaMoeExperts, WeightsOfAnotherTypeAreRefusedByName) {
  REQUIRE_DEVICE();
  TestDevice& test = *TestDevice::get();
  MoeCase host({2, 16, 8, 3, 2}, DType::bf16, 3, 1), wide({2, 16, 8, 3, 2}, DType::f32, 3, 1);
  MoeOnDevice device(host), other(wide);
  MoeExpertsArgs args = device.args();
  args.gate_up = other.gate_up.matrix();
  auto done = test.ops().moe_experts(test.stream(), args);
  ASSERT_FALSE(done.ok());
  EXPECT_THAT(done.error().what, HasSubstr("moe_experts: x bf16 with gate_up f32"));
  args = device.args();
  args.down = other.down.matrix();
  done = test.ops().moe_experts(test.stream(), args);
  ASSERT_FALSE(done.ok());
  EXPECT_THAT(done.error().what, HasSubstr("moe_experts: x bf16 with down f32"));
}

/// Base and pitch of every operand that the products read or write.
TEST(CudaMoeExperts, EveryOperandOffItsBoundaryIsNamedWithItsNumbers) {
  REQUIRE_DEVICE();
  TestDevice& test = *TestDevice::get();
  MoeCase host({3, 16, 8, 3, 2}, DType::bf16, 3, 1);
  MoeOnDevice device(host);
  const auto answer = [&](auto change) {
    MoeExpertsArgs args = device.args();
    change(args);
    const auto done = test.ops().moe_experts(test.stream(), args);
    return done.ok() ? std::string("done") : done.error().what;
  };
  const Elements odd{18};
  using Args = MoeExpertsArgs;
  EXPECT_EQ(answer([](Args& a) { a.x.base += 8; }), "moe_experts: x row 0 is not 16-byte aligned");
  EXPECT_EQ(answer([](Args& a) { a.gate_up.matrix.base += 8; }),
            "moe_experts: gate_up row 0 is not 16-byte aligned");
  EXPECT_EQ(answer([](Args& a) { a.down.matrix.base += 8; }),
            "moe_experts: down row 0 is not 16-byte aligned");
  EXPECT_EQ(answer([](Args& a) { a.hidden.base += 8; }), "moe_experts: hidden row 0 is not 16-byte aligned");
  EXPECT_EQ(answer([](Args& a) { a.out.base += 8; }), "moe_experts: out row 0 is not 16-byte aligned");
  EXPECT_EQ(answer([&](Args& a) { a.x.pitch = odd; }),
            "moe_experts: x row 1 is not 16-byte aligned: pitch 18");
  EXPECT_EQ(answer([&](Args& a) { a.gate_up.matrix.pitch = odd; }),
            "moe_experts: gate_up row 1 is not 16-byte aligned: pitch 18");
  EXPECT_EQ(answer([&](Args& a) { a.down.matrix.pitch = odd; }),
            "moe_experts: down row 1 is not 16-byte aligned: pitch 18");
  EXPECT_EQ(answer([&](Args& a) { a.hidden.pitch = odd; }),
            "moe_experts: hidden row 1 is not 16-byte aligned: pitch 18");
  EXPECT_EQ(answer([&](Args& a) { a.out.pitch = odd; }),
            "moe_experts: out row 1 is not 16-byte aligned: pitch 18");
}

TEST(CudaSharedExpert, AddsLikeTheCpuOnAndOffBoundaries) {
  REQUIRE_DEVICE();
  TestDevice& test = *TestDevice::get();
  std::mt19937 random(5);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const auto& [rows, cols] :
         {std::pair<std::int64_t, std::int64_t>{1, 8}, {3, 24}, {5, 21}, {4, 2560}}) {
      OpMatrix y = OpMatrix::random(dtype, rows, cols, random),
               shared = OpMatrix::random(dtype, rows, cols, random),
               gate = OpMatrix::random(dtype, rows, 3, random);
      OpMatrix want = y.converted(DType::f32), wide_shared = shared.converted(DType::f32),
               wide_gate = gate.converted(DType::f32);
      ASSERT_TRUE(test.cpu()
                      .shared_expert_add(test.host_stream(),
                                         {want.matrix(), wide_shared.matrix(), wide_gate.matrix()})
                      .ok());
      DeviceMatrix d_y(y), d_shared(shared), d_gate(gate);
      ASSERT_TRUE(test.ops()
                      .shared_expert_add(test.stream(), {d_y.matrix(), d_shared.matrix(), d_gate.matrix()})
                      .ok());
      EXPECT_LE(testing::relative_error(d_y.download(), want),
                dtype == DType::f32 ? testing::kF32Error : testing::kBf16Error);
      EXPECT_TRUE(d_y.download().padding_untouched());
    }
  }
}

}  // namespace
}  // namespace kernels
