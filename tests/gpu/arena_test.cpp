#include "gpu/arena.h"

#include <gtest/gtest.h>

#include <string>

#include "gpu/device.h"

namespace gpu {
namespace {

struct ArenaOf {
  explicit ArenaOf(std::int64_t size)
      : device(make_host_device(1)), arena(std::move(device->allocate(Bytes{size}, "arena")).value()) {}
  std::unique_ptr<Device> device;
  Arena arena;
};

TEST(Arena, SubBuffersAreAlignedAndDoNotOverlap) {
  ArenaOf a(4096);
  const auto first = a.arena.take(Bytes{1}, "a");
  const auto second = a.arena.take(Bytes{257}, "b");
  const auto third = a.arena.take(Bytes{1}, "c");
  EXPECT_EQ(*second - *first, 256);
  EXPECT_EQ(*third - *second, 512);
}

TEST(Arena, TheLastByteCanBeTakenAndNoneAfterIt) {
  for (const auto& [size, fits] : {std::pair{511, true}, std::pair{512, true}, std::pair{513, false}}) {
    ArenaOf a(1024);
    ASSERT_TRUE(a.arena.take(Bytes{512}, "first").ok());
    EXPECT_EQ(a.arena.take(Bytes{size}, "second").ok(), fits) << size;
  }
}

TEST(Arena, OverflowIsRefusedByNameAndTakesNothing) {
  ArenaOf a(1024);
  const auto refusal = a.arena.take(Bytes{2048}, "moe hidden");
  ASSERT_FALSE(refusal.ok());
  EXPECT_EQ(refusal.error().kind, DeviceError::Kind::refused);
  EXPECT_NE(refusal.error().what.find("moe hidden"), std::string::npos);
  EXPECT_NE(refusal.error().what.find("2048"), std::string::npos);
  EXPECT_TRUE(a.arena.take(Bytes{1024}, "all").ok());
}

TEST(Arena, RewindGivesTheSameBytesAgainAndHighWaterStays) {
  ArenaOf a(4096);
  (void)a.arena.take(Bytes{100}, "kept");
  const Bytes mark = a.arena.mark();
  const auto once = a.arena.take(Bytes{1000}, "layer 0");
  a.arena.rewind(mark);
  const auto again = a.arena.take(Bytes{500}, "layer 1");
  EXPECT_EQ(*once, *again);
  EXPECT_EQ(a.arena.high_water().n, 1256);
}

TEST(Arena, MatrixPadsItsPitchTo16Bytes) {
  for (const auto& [dtype, cols, pitch] :
       {std::tuple{DType::f32, 1, 4}, std::tuple{DType::f32, 4, 4}, std::tuple{DType::f32, 5, 8},
        std::tuple{DType::bf16, 5, 8}, std::tuple{DType::bf16, 8, 8}, std::tuple{DType::u8, 17, 32}}) {
    ArenaOf a(4096);
    const auto m = a.arena.matrix(dtype, Rows{3}, Elements{cols}, "m");
    ASSERT_TRUE(m.ok());
    EXPECT_EQ(m->pitch.n, pitch);
    EXPECT_EQ(m->cols.n, cols);
    EXPECT_EQ(m->rows.n, 3);
  }
}

TEST(Arena, WhatThePlanAddsUpIsWhatMatricesTake) {
  const Bytes planned = Arena::bytes_for(DType::f32, Rows{3}, Elements{5}) +
                        Arena::bytes_for(DType::bf16, Rows{1}, Elements{1}) +
                        Arena::bytes_for(DType::f32, Rows{7}, Elements{64});
  ArenaOf a(planned.n);
  EXPECT_TRUE(a.arena.matrix(DType::f32, Rows{3}, Elements{5}, "a").ok());
  EXPECT_TRUE(a.arena.matrix(DType::bf16, Rows{1}, Elements{1}, "b").ok());
  EXPECT_TRUE(a.arena.matrix(DType::f32, Rows{7}, Elements{64}, "c").ok());
  EXPECT_EQ(a.arena.high_water(), planned);
  EXPECT_FALSE(a.arena.take(Bytes{1}, "d").ok());
}

}  // namespace
}  // namespace gpu
