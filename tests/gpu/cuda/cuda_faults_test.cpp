#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <vector>

#include "tests/device/test_device.h"

/// What a fault does to a stream: one operation's is refused and forgotten, a context's stays.
namespace kernels::testing {
namespace {

using gpu::DeviceError;
using gpu::InjectedFault;

gpu::Stream& stream() { return TestDevice::get()->stream(); }

/// A round trip over the device.
bool works() {
  std::array<std::int32_t, 4> sent = {1, 2, 3, 4}, back = {};
  auto buffer = TestDevice::get()->device().allocate({16}, "probe");
  return buffer.ok() && stream().copy_to_device(buffer->base(), sent.data(), {16}, "probe").ok() &&
         stream().copy_to_host(back.data(), buffer->base(), {16}, "probe").ok() &&
         stream().synchronize().ok() && back == sent;
}

TEST(CudaFaults, ARefusedLaunchIsRefusedAndTheNextOperationRuns) {
  REQUIRE_DEVICE();
  for (int i = 0; i < 3; ++i) {
    const gpu::Status status = stream().inject(InjectedFault::refused_launch, "step 7");
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().kind, DeviceError::Kind::refused);
    // …Configuration or …Value: versions of the runtime name it differently.
    EXPECT_NE(status.error().what.find("step 7: cudaErrorInvalid"), std::string::npos) << status.error().what;
    EXPECT_TRUE(works());
  }
}

TEST(CudaFaults, MemoryThatIsNotThereIsRefusedAndTheNextOperationRuns) {
  REQUIRE_DEVICE();
  const gpu::Status status = stream().inject(InjectedFault::out_of_memory, "step 7");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, DeviceError::Kind::refused);
  EXPECT_NE(status.error().what.find("step 7: cudaErrorMemoryAllocation"), std::string::npos)
      << status.error().what;
  EXPECT_TRUE(works());
}

/// Runs in a process of its own: this one's context would be gone. 0: as promised; else the check that
/// failed.
int num_of_first_wrong_answer(InjectedFault fault, const std::string& name) {
  gpu::Device& device = TestDevice::get()->device();
  auto buffer = device.allocate({1024}, "before");
  if (!buffer.ok() || !works()) return 1;
  const gpu::Status enqueued = stream().inject(fault, "step 7");
  if (!enqueued.ok() && enqueued.error().kind != DeviceError::Kind::lost) return 2;
  const gpu::Status found = stream().synchronize();
  if (found.ok() || found.error().kind != DeviceError::Kind::lost) return 3;
  if (found.error().what.find(name) == std::string::npos) return 4;
  const auto is_lost = [](const gpu::Status& status) {
    return !status.ok() && status.error().kind == DeviceError::Kind::lost;
  };
  std::array<std::byte, 16> bytes{};
  if (!is_lost(stream().synchronize())) return 5;
  if (!is_lost(stream().fill_zero(buffer->base(), {16}, "x"))) return 6;
  if (!is_lost(stream().copy(buffer->base(), buffer->base() + 512, {16}, "x"))) return 7;
  if (!is_lost(stream().copy_to_device(buffer->base(), bytes.data(), {16}, "x"))) return 8;
  if (!is_lost(stream().copy_to_host(bytes.data(), buffer->base(), {16}, "x"))) return 9;
  if (!is_lost(stream().inject(InjectedFault::refused_launch, "x"))) return 10;
  const auto more = device.allocate({1024}, "after");
  if (more.ok() || more.error().kind != DeviceError::Kind::lost) return 11;
  const gpu::Matrix row{buffer->base(), gpu::DType::f32, {1}, {8}, {8}};
  if (!is_lost(TestDevice::get()->ops().add(stream(), {row, row}))) return 12;
  return 0;
}

TEST(CudaFaults, AMisalignedAddressLosesTheContextForGood) {
  REQUIRE_DEVICE();
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      std::_Exit(num_of_first_wrong_answer(InjectedFault::misaligned_address, "cudaErrorMisalignedAddress")),
      ::testing::ExitedWithCode(0), "");
}

TEST(CudaFaults, AnIllegalAddressLosesTheContextForGood) {
  REQUIRE_DEVICE();
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      std::_Exit(num_of_first_wrong_answer(InjectedFault::illegal_address, "cudaErrorIllegalAddress")),
      ::testing::ExitedWithCode(0), "");
}

TEST(CudaFaults, AValueThatAKernelRefusesFailsTheStepAndNotTheNext) {
  REQUIRE_DEVICE();
  TestDevice& test = *TestDevice::get();
  DeviceVector<float> x(std::vector<float>(3 * 8, 1.5F)), y(std::vector<float>(4 * 8, 0.0F));
  DeviceVector<std::int32_t> wrong({0, 2, 3, -1}), right({2, 0, 1, 1});
  const auto matrix = [](DeviceVector<float>& of, std::int64_t rows) {
    return gpu::Matrix{reinterpret_cast<std::byte*>(of.view().base), gpu::DType::f32, {rows}, {8}, {8}};
  };
  for (int step = 0; step < 2; ++step) {
    const gpu::Status enqueued = test.ops().gather_rows(stream(), {matrix(y, 4), matrix(x, 3), wrong.view()});
    ASSERT_TRUE(enqueued.ok()) << enqueued.error().what;
    const gpu::Status found = stream().synchronize();
    ASSERT_FALSE(found.ok());
    EXPECT_EQ(found.error().kind, DeviceError::Kind::refused);
    // One of the two, whichever came first.
    EXPECT_TRUE(found.error().what == "gather_rows: row 2: index 3 is not a row of x" ||
                found.error().what == "gather_rows: row 3: index -1 is not a row of x")
        << found.error().what;
    ASSERT_TRUE(test.ops().gather_rows(stream(), {matrix(y, 4), matrix(x, 3), right.view()}).ok());
    const gpu::Status next = stream().synchronize();
    EXPECT_TRUE(next.ok()) << next.error().what;
    EXPECT_EQ(y.download(), std::vector<float>(4 * 8, 1.5F));
  }
}

}  // namespace
}  // namespace kernels::testing
