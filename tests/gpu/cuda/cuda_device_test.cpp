#include <gtest/gtest.h>

#include <vector>

#include "tests/device/test_device.h"

namespace kernels::testing {
namespace {

TEST(CudaDevice, FactsNameTheDeviceAndItsLibraries) {
  REQUIRE_DEVICE();
  const gpu::DeviceFacts facts = TestDevice::get()->device().facts();
  EXPECT_EQ(facts.backend, gpu::Backend::cuda);
  EXPECT_FALSE(facts.name.empty());
  EXPECT_GT(facts.memory_free.n, 0);
  EXPECT_GE(facts.memory_total, facts.memory_free);
  EXPECT_GT(facts.num_workers, 0);
  EXPECT_GE(facts.compute_capability, 90);
  EXPECT_NE(facts.libraries.find("driver for CUDA "), std::string::npos);
  EXPECT_NE(facts.libraries.find("runtime "), std::string::npos);
  EXPECT_EQ(facts.libraries.find("cuBLASLt ") == std::string::npos, TestDevice::get()->emulated());
}

TEST(CudaDevice, MemoryIsAlignedAndNoBytesAreNoMemory) {
  REQUIRE_DEVICE();
  gpu::Device& device = TestDevice::get()->device();
  for (const std::int64_t size : {1, 255, 256, 257, 5000}) {
    const auto buffer = device.allocate({size}, "x");
    ASSERT_TRUE(buffer.ok());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer->base()) % 256, 0U);
    EXPECT_EQ(buffer->size().n, size);
  }
  EXPECT_EQ(device.allocate({0}, "x")->base(), nullptr);
  EXPECT_EQ(device.allocate({-1}, "x").error().kind, gpu::DeviceError::Kind::refused);
}

TEST(CudaDevice, MoreMemoryThanThereIsIsRefusedWithTheSizesAndTheDeviceGoesOn) {
  REQUIRE_DEVICE();
  gpu::Device& device = TestDevice::get()->device();
  const std::int64_t wanted = device.facts().memory_total.n + 4096;
  const auto refusal = device.allocate({wanted}, "KV pages");
  ASSERT_FALSE(refusal.ok());
  EXPECT_EQ(refusal.error().kind, gpu::DeviceError::Kind::refused);
  EXPECT_NE(refusal.error().what.find("allocate KV pages: " + std::to_string(wanted) + " bytes wanted, "),
            std::string::npos)
      << refusal.error().what;
  EXPECT_TRUE(device.allocate({4096}, "KV pages").ok());
  const gpu::Status done = TestDevice::get()->stream().synchronize();
  EXPECT_TRUE(done.ok()) << done.error().what;
}

}  // namespace
}  // namespace kernels::testing
