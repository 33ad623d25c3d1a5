#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/device/test_device.h"

namespace kernels::testing {
namespace {

constexpr std::size_t kMiB = 1 << 20;

std::vector<std::uint8_t> pattern(std::size_t size, std::size_t start) {
  std::vector<std::uint8_t> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::uint8_t>(start + i * 7 + i / 251);
  return bytes;
}
gpu::Bytes to_bytes(std::size_t size) { return {static_cast<std::int64_t>(size)}; }
std::string why(const gpu::Status& status) { return status.ok() ? "" : status.error().what; }
#define EXPECT_DONE(expression)                        \
  do {                                                 \
    const gpu::Status status_here = expression;        \
    EXPECT_TRUE(status_here.ok()) << why(status_here); \
  } while (false)

gpu::Stream& stream() { return TestDevice::get()->stream(); }

TEST(CudaStream, BytesOfEverySizeComeBackAsTheyWere) {
  REQUIRE_DEVICE();
  for (const std::size_t size : {std::size_t{1}, std::size_t{3}, std::size_t{255}, std::size_t{4097},
                                 4 * kMiB - 1, 4 * kMiB, 4 * kMiB + 1, 21 * kMiB + 5}) {
    const auto sent = pattern(size, size % 97);
    OnDevice there(sent.data(), size);
    std::vector<std::uint8_t> back(size, 0);
    there.download(back.data());
    EXPECT_TRUE(sent == back) << size << " bytes";
  }
}

TEST(CudaStream, TheSourceOfAnUploadMayBeReusedAtOnce) {
  REQUIRE_DEVICE();
  // Together more than the whole ring of staging memory, so its buffers are used again as well.
  constexpr std::size_t kPieces = 9, kSize = 3 * kMiB + 11;
  const std::vector<std::uint8_t> zeros(kPieces * kSize);
  OnDevice there(zeros.data(), zeros.size());
  std::vector<std::uint8_t> source;
  for (std::size_t i = 0; i < kPieces; ++i) {
    source = pattern(kSize, i);
    EXPECT_DONE(stream().copy_to_device(there.base() + i * kSize, source.data(), to_bytes(kSize), "piece"));
    std::fill(source.begin(), source.end(), std::uint8_t{0xEE});
  }
  std::vector<std::uint8_t> back(zeros.size());
  there.download(back.data());
  for (std::size_t i = 0; i < kPieces; ++i) {
    const auto wanted = pattern(kSize, i);
    EXPECT_TRUE(
        std::equal(wanted.begin(), wanted.end(), back.begin() + static_cast<std::ptrdiff_t>(i * kSize)))
        << "piece " << i;
  }
}

TEST(CudaStream, OperationsHappenInTheirOrder) {
  REQUIRE_DEVICE();
  const auto first = pattern(1000, 1), second = pattern(1000, 2);
  const std::vector<std::uint8_t> zeros(1000);
  OnDevice a(zeros.data(), 1000), b(zeros.data(), 1000);
  std::vector<std::uint8_t> early(1000), late(1000), cleared(1000, 9);
  EXPECT_DONE(stream().copy_to_device(a.base(), first.data(), {1000}, "first"));
  EXPECT_DONE(stream().copy(b.base(), a.base(), {1000}, "a to b"));
  EXPECT_DONE(stream().copy_to_device(a.base(), second.data(), {1000}, "second"));
  EXPECT_DONE(stream().copy_to_host(early.data(), b.base(), {1000}, "b"));
  EXPECT_DONE(stream().copy(b.base(), a.base(), {1000}, "a to b again"));
  EXPECT_DONE(stream().copy_to_host(late.data(), b.base(), {1000}, "b again"));
  EXPECT_DONE(stream().fill_zero(b.base(), {1000}, "b"));
  EXPECT_DONE(stream().copy_to_host(cleared.data(), b.base(), {1000}, "b cleared"));
  EXPECT_DONE(stream().synchronize());
  EXPECT_TRUE(early == first);
  EXPECT_TRUE(late == second);
  EXPECT_TRUE(cleared == zeros);
}

TEST(CudaStream, ManyDownloadsOfOneStepAllArrive) {
  REQUIRE_DEVICE();
  auto fresh = TestDevice::get()->device().create_stream();
  ASSERT_TRUE(fresh.ok());
  gpu::Stream& own = **fresh;
  constexpr std::size_t kLarge = 11 * kMiB;
  const auto sent = pattern(kLarge, 5);
  OnDevice there(sent.data(), kLarge);
  EXPECT_DONE(stream().synchronize());
  // Many that together outgrow what was kept, then one that outgrows it alone.
  for (const std::size_t last : {kLarge, std::size_t{1}, kLarge}) {
    std::vector<std::size_t> sizes(7, 700'001);
    sizes.push_back(last);
    std::vector<std::vector<std::uint8_t>> back;
    for (const std::size_t size : sizes) back.emplace_back(size);
    for (auto& place : back) {
      EXPECT_DONE(own.copy_to_host(place.data(), there.base(), to_bytes(place.size()), "part"));
    }
    EXPECT_DONE(own.synchronize());
    for (const auto& place : back) EXPECT_TRUE(std::equal(place.begin(), place.end(), sent.begin()));
  }
}

TEST(CudaStream, NullEndsAndNegativeSizesAreRefusedAndNothingIsNoOperation) {
  REQUIRE_DEVICE();
  const std::vector<std::uint8_t> bytes(16);
  OnDevice there(bytes.data(), 16);
  EXPECT_EQ(stream().copy(nullptr, there.base(), {16}, "x").error().kind, gpu::DeviceError::Kind::refused);
  EXPECT_EQ(stream().copy_to_device(there.base(), nullptr, {16}, "x").error().kind,
            gpu::DeviceError::Kind::refused);
  EXPECT_EQ(stream().fill_zero(there.base(), {-1}, "x").error().kind, gpu::DeviceError::Kind::refused);
  EXPECT_DONE(stream().copy(nullptr, nullptr, {0}, "x"));
  EXPECT_DONE(stream().synchronize());
}

TEST(CudaStream, ProgressCountsNotes) {
  REQUIRE_DEVICE();
  const auto before = stream().progress();
  stream().note_progress();
  stream().note_progress();
  EXPECT_EQ(stream().progress(), before + 2);
}

}  // namespace
}  // namespace kernels::testing
