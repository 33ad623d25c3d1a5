#include "kernels/elementwise.h"

#include "tests/kernels/cuda/twin.h"

namespace kernels::testing {
namespace {

using gpu::DType;

TEST(CudaElementwise, AddAgreesWithTheCpu) {
  REQUIRE_DEVICE();
  std::mt19937 rng(1);
  for (const DType dtype : kActivationTypes) {
    for (const auto [rows, cols] : row_shapes()) {
      SCOPED_TRACE(::testing::Message() << rows << "x" << cols << " " << gpu::to_string(dtype));
      Twin y = Twin::random(dtype, rows, cols, rng), x = Twin::random(dtype, rows, cols, rng);
      on_both([&](Ops& ops, gpu::Stream& stream, bool device) {
        return ops.add(stream, {y.at(device), x.at(device)});
      });
      y.expect_near("y");
    }
  }
}

TEST(CudaElementwise, ScaledSiluAgreesWithTheCpuInPlaceToo) {
  REQUIRE_DEVICE();
  std::mt19937 rng(2);
  for (const DType dtype : kActivationTypes) {
    for (const auto [rows, cols] : row_shapes()) {
      SCOPED_TRACE(::testing::Message() << rows << "x" << cols << " " << gpu::to_string(dtype));
      Twin x = Twin::random(dtype, rows, cols, rng, 3.0), y(dtype, rows, cols);
      const auto run = [&](Twin& to) {
        on_both([&](Ops& ops, gpu::Stream& stream, bool device) {
          return ops.scaled_silu(stream, {to.at(device), x.at(device), 0.25F});
        });
      };
      run(y);
      run(x);
      y.expect_near("y");
      EXPECT_TRUE(same_rows(x.from_device(), y.from_device()));
    }
  }
}

TEST(CudaElementwise, SwigluAgreesWithTheCpuInPlaceToo) {
  REQUIRE_DEVICE();
  std::mt19937 rng(3);
  for (const DType dtype : kActivationTypes) {
    for (const auto [rows, cols] : row_shapes()) {
      SCOPED_TRACE(::testing::Message() << rows << "x" << cols << " " << gpu::to_string(dtype));
      Twin gate = Twin::random(dtype, rows, cols, rng, 3.0), up = Twin::random(dtype, rows, cols, rng);
      Twin y(dtype, rows, cols);
      const auto run = [&](Twin& to) {
        on_both([&](Ops& ops, gpu::Stream& stream, bool device) {
          return ops.swiglu(stream, {to.at(device), gate.at(device), up.at(device)});
        });
      };
      run(y);
      run(gate);
      y.expect_near("y");
      EXPECT_TRUE(same_rows(gate.from_device(), y.from_device()));
    }
  }
}

TEST(CudaElementwise, ARowHasTheSameBitsAloneAndInABatchAlignedOrNot) {
  REQUIRE_DEVICE();
  for (const DType dtype : kActivationTypes) {
    for (const std::int64_t rows : batch_sizes()) {
      std::mt19937 rng(4), again(4);
      Twin gate = Twin::random(dtype, rows, 40, rng), up = Twin::random(dtype, rows, 40, rng);
      Twin odd_gate = Twin::random(dtype, rows, 40, again, 1.0, kOddPitch);
      Twin odd_up = Twin::random(dtype, rows, 40, again, 1.0, kOddPitch);
      Twin together(dtype, rows, 40), alone(dtype, rows, 40), odd(dtype, rows, 40, kOddPitch);
      on_device([&](Ops& ops, gpu::Stream& stream) -> gpu::Status {
        RETURN_IF_ERROR(ops.swiglu(stream, {together.device(), gate.device(), up.device()}));
        RETURN_IF_ERROR(ops.swiglu(stream, {odd.device(), odd_gate.device(), odd_up.device()}));
        for (std::int64_t r = 0; r < rows; ++r) {
          RETURN_IF_ERROR(
              ops.swiglu(stream, {alone.part(true, r, 1), gate.part(true, r, 1), up.part(true, r, 1)}));
        }
        return gpu::Done{};
      });
      EXPECT_TRUE(same_rows(together.from_device(), alone.from_device())) << rows;
      EXPECT_TRUE(same_rows(together.from_device(), odd.from_device())) << rows;
      EXPECT_TRUE(odd.from_device().padding_untouched());
    }
  }
}

TEST(CudaElementwise, NoRowsAreANoOp) {
  REQUIRE_DEVICE();
  Twin y(DType::bf16, 3, 16);
  const gpu::Matrix none = y.device().first_rows({0});
  on_device([&](Ops& ops, gpu::Stream& stream) -> gpu::Status {
    RETURN_IF_ERROR(ops.add(stream, {none, none}));
    RETURN_IF_ERROR(ops.scaled_silu(stream, {none, none, 1.0F}));
    return ops.swiglu(stream, {none, none, none});
  });
  EXPECT_EQ(complaint_of_step(), "");
  EXPECT_TRUE(same_rows(y.from_device(), y.from_host()));
}

}  // namespace
}  // namespace kernels::testing
