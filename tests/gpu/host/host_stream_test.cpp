#include "gpu/host/host_stream.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <ctime>
#include <memory>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "gpu/device.h"

namespace gpu {
namespace {

TEST(HostStream, EveryTileRunsExactlyOnce) {
  for (const int workers : {1, 2, 3, 5}) {
    PooledHostStream stream(workers);
    for (const std::int64_t tiles : {0, 1, 2, 3, 7, 64, 1000}) {
      std::vector<std::atomic<int>> runs(static_cast<std::size_t>(tiles));
      ASSERT_TRUE(
          stream.parallel("op", tiles, [&](std::int64_t i) { ++runs[static_cast<std::size_t>(i)]; }).ok());
      for (const auto& count : runs)
        ASSERT_EQ(count.load(), 1) << workers << " workers, " << tiles << " tiles";
    }
  }
}

TEST(HostStream, WhatTilesWroteIsThereWhenTheCallReturns) {
  PooledHostStream stream(3);
  std::array<std::int64_t, 97> values{};
  for (std::int64_t round = 1; round <= 3000;
       ++round) {  // plain memory: a missing happens-before is a race under TSan
    ASSERT_TRUE(
        stream.parallel("op", 97, [&](std::int64_t i) { values[static_cast<std::size_t>(i)] += i; }).ok());
    ASSERT_EQ(values[96], 96 * round);
    ASSERT_EQ(values[50], 50 * round);
  }
}

TEST(HostStream, OtherThreadsTakePart) {
  PooledHostStream stream(2);
  std::atomic<bool> other{false};
  const auto caller = std::this_thread::get_id();
  // The caller's tile gives the other worker the processor until it has come; bounded, so that a broken pool
  // fails instead of hanging.
  for (int round = 0; round < 100 && !other; ++round) {
    ASSERT_TRUE(stream
                    .parallel("op", 2,
                              [&](std::int64_t) {
                                if (std::this_thread::get_id() != caller) other = true;
                                for (int i = 0; i < 10000 && !other; ++i) std::this_thread::yield();
                              })
                    .ok());
  }
  EXPECT_TRUE(other);
}

TEST(HostStream, OneTileRunsOnTheCaller) {
  PooledHostStream stream(4);
  std::thread::id ran;
  ASSERT_TRUE(stream.parallel("op", 1, [&](std::int64_t) { ran = std::this_thread::get_id(); }).ok());
  EXPECT_EQ(ran, std::this_thread::get_id());
}

TEST(HostStream, AnExceptionBecomesARefusalAndTheStreamGoesOn) {
  for (const int workers : {1, 3}) {
    PooledHostStream stream(workers);
    const auto status = stream.parallel("gemm qkv", 50, [](std::int64_t i) {
      if (i % 7 == 3) throw std::runtime_error("no");
    });
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().kind, DeviceError::Kind::refused);
    EXPECT_NE(status.error().what.find("gemm qkv"), std::string::npos);
    EXPECT_TRUE(stream.synchronize().ok());
    std::atomic<int> runs{0};
    EXPECT_TRUE(stream.parallel("op", 50, [&](std::int64_t) { ++runs; }).ok());
    EXPECT_EQ(runs, 50);
  }
}

TEST(HostStream, ThousandsOfShortOperationsInARow) {
  PooledHostStream stream(3);
  std::atomic<std::int64_t> sum{0};
  for (int i = 0; i < 20000; ++i)
    ASSERT_TRUE(stream.parallel("op", 2 + i % 3, [&](std::int64_t) { ++sum; }).ok());
  EXPECT_EQ(sum, 20000 / 3 * (2 + 3 + 4) + 2 + 3);
}

TEST(HostStream, CopiesAndFills) {
  PooledHostStream stream(1);
  std::array<std::byte, 8> a{}, b{};
  a.fill(std::byte{5});
  ASSERT_TRUE(stream.copy(b.data(), a.data(), Bytes{8}, "x").ok());
  EXPECT_EQ(a, b);
  ASSERT_TRUE(stream.fill_zero(b.data() + 2, Bytes{3}, "x").ok());
  EXPECT_EQ(b[1], std::byte{5});
  EXPECT_EQ(b[2], std::byte{0});
  EXPECT_EQ(b[4], std::byte{0});
  EXPECT_EQ(b[5], std::byte{5});
  const int from = 77;
  int to = 0;
  ASSERT_TRUE(stream.copy_to_device(b.data(), &from, Bytes{sizeof from}, "x").ok());
  ASSERT_TRUE(stream.copy_to_host(&to, b.data(), Bytes{sizeof to}, "x").ok());
  ASSERT_TRUE(stream.synchronize().ok());
  EXPECT_EQ(to, 77);
}

TEST(HostStream, NothingToCopyNeedsNoMemoryAndNullIsRefused) {
  PooledHostStream stream(1);
  EXPECT_TRUE(stream.copy(nullptr, nullptr, Bytes{0}, "x").ok());
  EXPECT_TRUE(stream.fill_zero(nullptr, Bytes{0}, "x").ok());
  const auto status = stream.copy_to_device(nullptr, &stream, Bytes{4}, "embedding ids");
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().what.find("embedding ids"), std::string::npos);
}

TEST(HostStream, ProgressIsReadByOtherThreads) {
  PooledHostStream stream(2);
  EXPECT_EQ(stream.progress(), 0U);
  stream.note_progress();
  stream.note_progress();
  std::uint64_t seen = 0;
  std::thread([&] { seen = stream.progress(); }).join();
  EXPECT_EQ(seen, 2U);
}

TEST(HostStream, AnIdleStreamUsesNoProcessorTime) {
  PooledHostStream stream(4);
  ASSERT_TRUE(stream.parallel("op", 8, [](std::int64_t) {}).ok());
  const auto spent = [](clockid_t clock) {
    timespec t{};
    clock_gettime(clock, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
  };
  // The caller works alone for 0.2 s; workers that spun meanwhile would show in the process's time.
  const double process = spent(CLOCK_PROCESS_CPUTIME_ID), own = spent(CLOCK_THREAD_CPUTIME_ID);
  while (spent(CLOCK_THREAD_CPUTIME_ID) - own < 0.2) {
  }
  const double others = spent(CLOCK_PROCESS_CPUTIME_ID) - process - (spent(CLOCK_THREAD_CPUTIME_ID) - own);
  EXPECT_LT(others, 0.05);
}

TEST(HostDevice, StreamsOfTheDeviceAreHostStreams) {
  const auto device = make_host_device(2);
  auto stream = device->create_stream();
  ASSERT_TRUE(stream.ok());
  EXPECT_NE(dynamic_cast<HostStream*>(stream->get()), nullptr);
}

TEST(HostStream, AnInjectedRefusalIsOneOperations) {
  PooledHostStream stream(1);
  for (const auto fault : {InjectedFault::refused_launch, InjectedFault::out_of_memory}) {
    const Status status = stream.inject(fault, "step 7");
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().kind, DeviceError::Kind::refused);
    EXPECT_NE(status.error().what.find("step 7"), std::string::npos);
  }
  int runs = 0;
  EXPECT_TRUE(stream.parallel("op", 1, [&](std::int64_t) { ++runs; }).ok());
  EXPECT_EQ(runs, 1);
  EXPECT_TRUE(stream.synchronize().ok());
}

TEST(HostStream, AfterAnInjectedStickyFaultEveryCallIsLost) {
  for (const auto fault : {InjectedFault::misaligned_address, InjectedFault::illegal_address}) {
    PooledHostStream stream(1);
    std::array<std::byte, 4> a{}, b{};
    ASSERT_TRUE(stream.inject(fault, "step 7").ok());  // found by a later call, as on a device
    int runs = 0;
    const std::vector<Status> answers = {stream.parallel("op", 1, [&](std::int64_t) { ++runs; }),
                                         stream.copy(a.data(), b.data(), {4}, "x"),
                                         stream.copy_to_device(a.data(), b.data(), {4}, "x"),
                                         stream.copy_to_host(a.data(), b.data(), {4}, "x"),
                                         stream.fill_zero(a.data(), {4}, "x"),
                                         stream.inject(InjectedFault::refused_launch, "x"),
                                         stream.synchronize(),
                                         stream.synchronize()};
    for (std::size_t i = 0; i < answers.size(); ++i) {
      ASSERT_FALSE(answers[i].ok()) << "call " << i;
      EXPECT_EQ(answers[i].error().kind, DeviceError::Kind::lost);
      EXPECT_NE(answers[i].error().what.find("step 7"), std::string::npos);
    }
    EXPECT_EQ(runs, 0);
  }
}

}  // namespace
}  // namespace gpu
