#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <utility>

#include "gpu/device.h"

namespace gpu {
namespace {

TEST(HostDevice, TellsWhatAPlanNeeds) {
  const auto device = make_host_device(3);
  const DeviceFacts facts = device->facts();
  EXPECT_EQ(facts.backend, Backend::cpu);
  EXPECT_EQ(facts.num_workers, 3);
  EXPECT_GT(facts.memory_total.n, 0);
  EXPECT_GE(facts.memory_total, facts.memory_free);
  EXPECT_FALSE(facts.name.empty());
}

TEST(HostDevice, HasAtLeastOneWorker) {
  EXPECT_EQ(make_host_device(0)->facts().num_workers, 1);
  EXPECT_EQ(make_host_device(-5)->facts().num_workers, 1);
}

TEST(HostDevice, MemoryIsAlignedAndReadsAsZero) {
  const auto device = make_host_device(1);
  for (const std::int64_t size : {1, 255, 256, 4096, 100001}) {
    auto buffer = device->allocate(Bytes{size}, "weights");
    ASSERT_TRUE(buffer.ok());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer->base()) % 256, 0U);
    EXPECT_EQ(buffer->size().n, size);
    for (std::int64_t i = 0; i < size; ++i) ASSERT_EQ(buffer->base()[i], std::byte{0});
    buffer->base()[size - 1] = std::byte{7};
  }
}

TEST(HostDevice, PagesAreTouchedLazily) {
  const auto device = make_host_device(1);
  const auto resident_kib = [] {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("VmRSS:")) return std::stol(line.substr(6));
    }
    return 0L;
  };
  const long before = resident_kib();
  auto buffer = device->allocate(Bytes{std::int64_t{1} << 32}, "pages");
  ASSERT_TRUE(buffer.ok());
  buffer->base()[std::int64_t{1} << 31] = std::byte{1};
  EXPECT_LT(resident_kib() - before, 64 * 1024);
}

TEST(HostDevice, NothingAskedIsAnEmptyBuffer) {
  const auto device = make_host_device(1);
  auto buffer = device->allocate(Bytes{0}, "nothing");
  ASSERT_TRUE(buffer.ok());
  EXPECT_EQ(buffer->base(), nullptr);
}

TEST(HostDevice, MoreThanTheAddressSpaceIsRefusedByName) {
  const auto device = make_host_device(1);
  for (const std::int64_t size : {std::int64_t{1} << 62, std::int64_t{-1}}) {
    auto buffer = device->allocate(Bytes{size}, "kv pages");
    ASSERT_FALSE(buffer.ok());
    EXPECT_EQ(buffer.error().kind, DeviceError::Kind::refused);
    EXPECT_NE(buffer.error().what.find("kv pages"), std::string::npos);
    EXPECT_NE(buffer.error().what.find(std::to_string(size)), std::string::npos);
  }
}

/// Counts what is given back.
class CountingDevice final : public Device {
 public:
  DeviceFacts facts() const override { return {}; }
  Result<Buffer, DeviceError> allocate(Bytes size, const char*) override {
    return Buffer(this, memory_, size);
  }
  Result<std::unique_ptr<Stream>, DeviceError> create_stream() override { return refused("none"); }
  int freed = 0;

 private:
  void free(std::byte*, Bytes) noexcept override { ++freed; }
  std::byte memory_[64];
};

TEST(Buffer, IsFreedOnceByItsDevice) {
  CountingDevice device;
  {
    Buffer a = std::move(device.allocate(Bytes{8}, "a")).value();
    Buffer moved = std::move(a);
    Buffer c;
    c = std::move(moved);
    EXPECT_EQ(device.freed, 0);
    EXPECT_EQ(c.size().n, 8);
  }
  EXPECT_EQ(device.freed, 1);
}

TEST(Buffer, AssigningOverOneFreesIt) {
  CountingDevice device;
  Buffer a = std::move(device.allocate(Bytes{8}, "a")).value();
  a = std::move(device.allocate(Bytes{16}, "b")).value();
  EXPECT_EQ(device.freed, 1);
  EXPECT_EQ(a.size().n, 16);
}

}  // namespace
}  // namespace gpu
