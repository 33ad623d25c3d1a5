#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <set>
#include <vector>

#include "kernels/cuda/device/reduce.cuh"

/// The emulator itself: what it promises to kernels, and what it shows of wrong ones.
namespace cuda_emulator {
namespace {

template <class T>
class Device {
 public:
  explicit Device(const std::vector<T>& host) : size_(host.size()) {
    EXPECT_EQ(cudaMalloc(&base_, size_ * sizeof(T)), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(base_, host.data(), size_ * sizeof(T), cudaMemcpyHostToDevice), cudaSuccess);
  }
  ~Device() { (void)cudaFree(base_); }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  T* base() { return base_; }
  std::vector<T> values() {
    std::vector<T> host(size_);
    EXPECT_EQ(cudaMemcpy(host.data(), base_, size_ * sizeof(T), cudaMemcpyDeviceToHost), cudaSuccess);
    return host;
  }

 private:
  std::size_t size_;
  T* base_ = nullptr;
};

template <class... Parameters, class... Arguments>
cudaError_t start(dim3 grid, dim3 block, std::size_t shared, void (*kernel)(Parameters...),
                  Arguments... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

__global__ void name_threads(int* out) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  out[block * 24 + thread] += static_cast<int>(block * 100 + thread);
}

TEST(Grid, EveryThreadOfEveryBlockRunsOnce) {
  Device<int> out(std::vector<int>(30 * 24, 0));
  ASSERT_EQ(start({5, 3, 2}, {4, 3, 2}, 0, name_threads, out.base()), cudaSuccess);
  const auto values = out.values();
  for (int block = 0; block < 30; ++block) {
    for (int thread = 0; thread < 24; ++thread) {
      EXPECT_EQ(values[static_cast<std::size_t>(block * 24 + thread)], block * 100 + thread);
    }
  }
}

template <bool kBarrier>
__global__ void rotate(int* out) {
  __shared__ int values[64];
  const int i = static_cast<int>(threadIdx.x);
  values[i] = i;
  if (kBarrier) __syncthreads();
  out[i] = values[(i + 1) % 64];
}

TEST(Barrier, AMissingOneShowsAndAPresentOneDoesNot) {
  std::set<std::vector<int>> with, without;
  for (int run = 0; run < 8; ++run) {
    Device<int> out(std::vector<int>(64, 0));
    ASSERT_EQ(start(1, 64, 0, rotate<true>, out.base()), cudaSuccess);
    with.insert(out.values());
  }
  for (int run = 0; run < 8; ++run) {
    Device<int> out(std::vector<int>(64, 0));
    ASSERT_EQ(start(1, 64, 0, rotate<false>, out.base()), cudaSuccess);
    without.insert(out.values());
  }
  EXPECT_EQ(with.size(), 1U);
  EXPECT_GT(without.size(), 1U);
}

__global__ void append(int* places, int* order) {
  if (threadIdx.x == 0) order[atomicAdd(places, 1)] = static_cast<int>(blockIdx.x);
}

TEST(Grid, BlocksComeInAnOrderThatChanges) {
  std::set<std::vector<int>> orders;
  for (int run = 0; run < 8; ++run) {
    Device<int> place(std::vector<int>(1, 0)), order(std::vector<int>(16, -1));
    ASSERT_EQ(start(16, 32, 0, append, place.base(), order.base()), cudaSuccess);
    orders.insert(order.values());
  }
  EXPECT_GT(orders.size(), 1U);
}

__global__ void exchange(int* out) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  int* const mine = out + 8 * threadIdx.x;
  mine[0] = __shfl_sync(0xFFFFFFFFU, lane, 5);
  mine[1] = __shfl_xor_sync(0xFFFFFFFFU, lane, 3);
  mine[2] = __shfl_up_sync(0xFFFFFFFFU, lane, 2);
  mine[3] = __shfl_down_sync(0xFFFFFFFFU, lane, 2);
  mine[4] = __shfl_sync(0xFFFFFFFFU, lane, 1, 8);
  mine[5] = static_cast<int>(__ballot_sync(0xFFFFFFFFU, lane % 3 == 0));
  mine[6] = __any_sync(0xFFFFFFFFU, lane == 31) * 2 + __all_sync(0xFFFFFFFFU, lane < 31);
  mine[7] = static_cast<int>(__shfl_xor_sync(0xFFFFFFFFU, static_cast<double>(lane) + 0.5, 16) * 2.0);
}

TEST(Warp, LanesReadEachOther) {
  Device<int> out(std::vector<int>(64 * 8, -1));
  ASSERT_EQ(start(1, 64, 0, exchange, out.base()), cudaSuccess);
  const auto values = out.values();
  for (int thread = 0; thread < 64; ++thread) {
    const int lane = thread % 32;
    const std::vector<int> mine(values.begin() + 8 * thread, values.begin() + 8 * (thread + 1));
    int thirds = 0;
    for (int l = 0; l < 32; l += 3) thirds |= static_cast<int>(1U << l);
    const std::vector<int> wanted = {
        5,      lane ^ 3, lane < 2 ? lane : lane - 2, lane > 29 ? lane : lane + 2, lane / 8 * 8 + 1,
        thirds, 2,        (lane ^ 16) * 2 + 1};
    EXPECT_EQ(mine, wanted) << "thread " << thread;
  }
}

__global__ void sum(float* out) {
  __shared__ float parts[4];
  const float total = kernels::cuda::block_sum<128>(static_cast<float>(threadIdx.x), parts);
  const float again = kernels::cuda::block_sum<128>(1.0F, parts);
  out[threadIdx.x] = total + again;
}

TEST(Block, SumsReachEveryThread) {
  Device<float> out(std::vector<float>(128, 0.0F));
  ASSERT_EQ(start(1, 128, 0, sum, out.base()), cudaSuccess);
  for (const float value : out.values()) EXPECT_EQ(value, 127.0F * 64.0F + 128.0F);
}

std::uint16_t bf16_of(int small) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(small)) >> 16);
}
std::uint32_t pair_of(int low, int high) { return bf16_of(low) | std::uint32_t{bf16_of(high)} << 16; }

/// The layouts as intrinsics.cuh states them, written again from that text.
__global__ void product(const int* a, const int* b, float* d) {
  const int g = static_cast<int>(threadIdx.x) / 4, t = static_cast<int>(threadIdx.x) % 4;
  const auto at = [&](int row, int column) {
    return pair_of(a[row * 16 + column], a[row * 16 + column + 1]);
  };
  const auto bt = [&](int k, int column) { return pair_of(b[k * 8 + column], b[(k + 1) * 8 + column]); };
  const std::uint32_t left[4] = {at(g, 2 * t), at(g + 8, 2 * t), at(g, 2 * t + 8), at(g + 8, 2 * t + 8)};
  const std::uint32_t right[2] = {bt(2 * t, g), bt(2 * t + 8, g)};
  float sums[4] = {1.0F, 2.0F, 3.0F, 4.0F};
  kernels::cuda::mma_bf16(sums, left, right);
  d[g * 8 + 2 * t] = sums[0] - 1.0F;
  d[g * 8 + 2 * t + 1] = sums[1] - 2.0F;
  d[(g + 8) * 8 + 2 * t] = sums[2] - 3.0F;
  d[(g + 8) * 8 + 2 * t + 1] = sums[3] - 4.0F;
}

TEST(Intrinsics, MmaIsTheProductOfTheMatrices) {
  std::vector<int> a(256), b(128);
  for (int i = 0; i < 256; ++i) a[static_cast<std::size_t>(i)] = i * 37 % 23 - 11;
  for (int i = 0; i < 128; ++i) b[static_cast<std::size_t>(i)] = i * 29 % 19 - 9;
  Device<int> left(a), right(b);
  Device<float> out(std::vector<float>(128, 0.0F));
  ASSERT_EQ(start(1, 32, 0, product, static_cast<const int*>(left.base()),
                  static_cast<const int*>(right.base()), out.base()),
            cudaSuccess);
  const auto d = out.values();
  for (std::size_t row = 0; row < 16; ++row) {
    for (std::size_t column = 0; column < 8; ++column) {
      int wanted = 0;
      for (std::size_t k = 0; k < 16; ++k) wanted += a[row * 16 + k] * b[k * 8 + column];
      EXPECT_EQ(d[row * 8 + column], static_cast<float>(wanted)) << row << ", " << column;
    }
  }
}

template <bool kTransposed>
__global__ void load(std::uint32_t* out) {
  auto* const tile = reinterpret_cast<std::uint16_t*>(kernels::cuda::dynamic_shared());
  for (unsigned i = threadIdx.x; i < 256; i += 32) tile[i] = static_cast<std::uint16_t>(i);
  __syncwarp();
  std::uint32_t r[4];
  if (kTransposed) {
    kernels::cuda::load_matrices_transposed(r, tile + 8 * threadIdx.x);
  } else {
    kernels::cuda::load_matrices(r, tile + 8 * threadIdx.x);
  }
  for (int m = 0; m < 4; ++m) out[4 * threadIdx.x + static_cast<unsigned>(m)] = r[m];
}

TEST(Intrinsics, MatricesComeInTheirLanes) {
  for (const bool transposed : {false, true}) {
    Device<std::uint32_t> out(std::vector<std::uint32_t>(128, 0));
    ASSERT_EQ(start(1, 32, 512, transposed ? load<true> : load<false>, out.base()), cudaSuccess);
    const auto values = out.values();
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
      for (std::uint32_t m = 0; m < 4; ++m) {
        const std::uint32_t row = lane / 4, column = 2 * (lane % 4);
        const std::uint32_t first = 64 * m + (transposed ? 8 * column + row : 8 * row + column);
        const std::uint32_t second = 64 * m + (transposed ? 8 * (column + 1) + row : 8 * row + column + 1);
        EXPECT_EQ(values[4 * lane + m], first | second << 16);
      }
    }
  }
}

template <bool kWaits>
__global__ void copy_in_background(const uint4* from, unsigned* out) {
  auto* const shared = reinterpret_cast<uint4*>(kernels::cuda::dynamic_shared());
  kernels::cuda::copy_async_16(shared, from, true);
  kernels::cuda::commit_copies();
  kernels::cuda::copy_async_16(shared + 1, from, false);
  kernels::cuda::commit_copies();
  kernels::cuda::wait_copies<1>();
  out[0] = shared[0].x;
  if (kWaits) kernels::cuda::wait_copies<0>();
  out[1] = shared[1].w;
}

TEST(Intrinsics, ABackgroundCopyIsThereWhenItWasWaitedForAndNotBefore) {
  Device<uint4> from(std::vector<uint4>(1, uint4{7, 8, 9, 10}));
  Device<unsigned> out(std::vector<unsigned>(2, 1));
  ASSERT_EQ(start(1, 1, 32, copy_in_background<true>, static_cast<const uint4*>(from.base()), out.base()),
            cudaSuccess);
  EXPECT_EQ(out.values(), (std::vector<unsigned>{7, 0}));
  ASSERT_EQ(start(1, 1, 32, copy_in_background<false>, static_cast<const uint4*>(from.base()), out.base()),
            cudaSuccess);
  EXPECT_EQ(out.values(), (std::vector<unsigned>{7, 0xFFFFFFFFU}));
}

__global__ void lonely_lane() {
  if (threadIdx.x == 3) return;
  __shfl_sync(0xFFFFFFFFU, 1, 0);
}
__global__ void half_a_barrier() {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncwarp();
    if (threadIdx.x == 40) __syncwarp();
    __syncthreads();
  }
}
__global__ void two_collectives() {
  if (threadIdx.x < 16) {
    __ballot_sync(0xFFFFFFFFU, 1);
  } else {
    __shfl_sync(0xFFFFFFFFU, 1, 0);
  }
}
__global__ void early_end(int* out) {
  if (threadIdx.x >= 40) return;
  __syncthreads();
  out[threadIdx.x] = 1;
}

TEST(MeetingPoints, OneThatNotAllReachEndsTheProcessWithAReport) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto run = [](void (*kernel)()) {
    (void)start(1, 64, 0, kernel);
    (void)cudaDeviceSynchronize();
  };
  EXPECT_DEATH(run(lonely_lane), "lonely_lane.*wait for others(.|\n)*threads 3, 32, .*have ended");
  EXPECT_DEATH(run(half_a_barrier), "half_a_barrier.*wait for others(.|\n)*threads 40 wait in __syncwarp");
  EXPECT_DEATH(run(two_collectives), "two_collectives.*different collectives");
}

TEST(MeetingPoints, ThreadsThatHaveEndedAreNotWaitedForAtABarrier) {
  Device<int> out(std::vector<int>(64, 0));
  ASSERT_EQ(start(1, 64, 0, early_end, out.base()), cudaSuccess);
  const auto values = out.values();
  for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(values[i], i < 40 ? 1 : 0);
}

TEST(Launch, AnInvalidConfigurationIsRefusedAndNothingElseHappens) {
  EXPECT_EQ(start(1, 1025, 0, lonely_lane), cudaErrorInvalidConfiguration);
  EXPECT_EQ(start(1, 0, 0, lonely_lane), cudaErrorInvalidConfiguration);
  EXPECT_EQ(start(1, 32, 100 * 1024, lonely_lane), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFuncSetAttribute(lonely_lane, cudaFuncAttributeMaxDynamicSharedMemorySize, 228 * 1024),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

__global__ void write_past(int* values, int at) { values[at] = 1; }

TEST(Memory, AnAccessBehindAnAllocationKillsTheContext) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto run = [] {
    Device<int> values(std::vector<int>(64, 0));
    (void)start(1, 1, 0, write_past, values.base(), 64);
    const cudaError_t error = cudaDeviceSynchronize();
    void* more = nullptr;
    std::exit(error == cudaErrorIllegalAddress && cudaMalloc(&more, 16) == cudaErrorIllegalAddress ? 3 : 4);
  };
  EXPECT_EXIT(run(), ::testing::ExitedWithCode(3), "write_past.*illegal memory access");
}

struct View {
  int rows;
  const int* base;
};
__global__ void read_first(View view, int* out) { *out = *view.base; }

struct Flagged {
  std::int64_t count;
  std::uint8_t flag;  // and seven bytes of nothing
};
__global__ void write_flag(Flagged from, int* out) { *out = from.flag; }

TEST(Launch, WhatLiesBetweenMembersIsNoAddress) {
  Device<int> out(std::vector<int>(1, 0));
  Flagged argument;
  const void* const host = &argument;
  std::memset(static_cast<void*>(&argument), 0, sizeof argument);
  std::memcpy(reinterpret_cast<std::byte*>(&argument) + 8, &host, sizeof host);
  argument.flag = 7;
  ASSERT_EQ(start(1, 1, 0, write_flag, argument, out.base()), cudaSuccess);
  EXPECT_EQ(out.values(), (std::vector<int>{7}));
}

TEST(Launch, AnArgumentWithAHostAddressEndsTheProcessWithAReport) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::vector<int> host(4, 5);
  Device<int> there(host), out(std::vector<int>(1, 0));
  EXPECT_DEATH((void)start(1, 1, 0, read_first, View{1, host.data()}, out.base()),
               "read_first.*byte 8 of an argument of 16 holds the host's address");
  ASSERT_EQ(start(1, 1, 0, read_first, View{1, there.base()}, out.base()), cudaSuccess);
  EXPECT_EQ(out.values(), std::vector<int>{5});
}

__global__ void read_unwritten(unsigned* out) {
  __shared__ unsigned values[2];
  const auto* const dynamic = reinterpret_cast<const unsigned*>(kernels::cuda::dynamic_shared());
  out[0] = values[0];
  out[1] = dynamic[3];
  values[0] = values[1] = 7;
}

TEST(Memory, IsPoisonedUntilItIsWritten) {
  unsigned* fresh = nullptr;
  ASSERT_EQ(cudaMalloc(&fresh, 2 * sizeof(unsigned)), cudaSuccess);
  unsigned host[2] = {};
  ASSERT_EQ(cudaMemcpy(host, fresh, sizeof(host), cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(host[0], 0xFFFFFFFFU);
  EXPECT_EQ(cudaFree(fresh), cudaSuccess);
  for (int launch = 0; launch < 2; ++launch) {
    Device<unsigned> out(std::vector<unsigned>(2, 0));
    ASSERT_EQ(start(1, 1, 16, read_unwritten, out.base()), cudaSuccess);
    EXPECT_EQ(out.values(), std::vector<unsigned>(2, 0xFFFFFFFFU));
  }
}

TEST(Memory, CopiesOutOfRangeAreInvalid) {
  Device<int> values(std::vector<int>(64, 0));
  int host[65] = {};
  EXPECT_EQ(cudaMemcpy(values.base(), host, 65 * sizeof(int), cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(host, values.base() + 1, 64 * sizeof(int), cudaMemcpyDeviceToHost),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(host, host + 1, sizeof(int), cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  (void)cudaGetLastError();
}

}  // namespace
}  // namespace cuda_emulator
