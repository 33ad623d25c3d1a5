#include "kernels/hyper_connection.h"

#include "tests/kernels/cuda/twin.h"

namespace kernels::testing {
namespace {

using gpu::DType;

TEST(CudaHyperConnection, RepeatCopiesEveryStreamBitForBit) {
  REQUIRE_DEVICE();
  std::mt19937 rng(11);
  for (const DType dtype : kActivationTypes) {
    for (const std::int32_t streams : {1, 3, 4}) {
      for (const auto [rows, cols] : row_shapes()) {
        SCOPED_TRACE(::testing::Message() << streams << " streams of " << rows << "x" << cols);
        Twin x = Twin::random(dtype, rows, cols, rng), h(dtype, rows, cols * streams);
        on_both([&](Ops& ops, gpu::Stream& stream, bool device) {
          return ops.repeat_streams(stream, {h.at(device), x.at(device), streams});
        });
        h.expect_equal("h");
      }
    }
  }
}

TEST(CudaHyperConnection, MixAgreesWithTheCpu) {
  REQUIRE_DEVICE();
  std::mt19937 rng(12);
  for (const DType dtype : kActivationTypes) {
    for (const std::int32_t streams : {1, 3, 4, 9}) {
      for (const auto [rows, cols] : row_shapes()) {
        SCOPED_TRACE(::testing::Message() << streams << " streams of " << rows << "x" << cols);
        Twin g = Twin::random(dtype, rows, cols * streams, rng, 2.0);
        Twin xn = Twin::random(dtype, rows, cols * streams, rng), x(dtype, rows, cols);
        on_both([&](Ops& ops, gpu::Stream& stream, bool device) {
          return ops.mix_streams(stream, {x.at(device), g.at(device), xn.at(device), streams});
        });
        x.expect_near("x");
      }
    }
  }
}

TEST(CudaHyperConnection, InjectAgreesWithTheCpu) {
  REQUIRE_DEVICE();
  std::mt19937 rng(13);
  for (const DType dtype : kActivationTypes) {
    for (const std::int32_t streams : {1, 3, 4, 9}) {
      for (const auto [rows, cols] : row_shapes()) {
        SCOPED_TRACE(::testing::Message() << streams << " streams of " << rows << "x" << cols);
        Twin h = Twin::random(dtype, rows, cols * streams, rng), y = Twin::random(dtype, rows, cols, rng);
        Twin inject = Twin::random(dtype, rows, streams + 2, rng, 4.0);
        on_both([&](Ops& ops, gpu::Stream& stream, bool device) {
          return ops.inject_streams(stream, {h.at(device), y.at(device), inject.at(device), streams});
        });
        h.expect_near("h");
      }
    }
  }
}

TEST(CudaHyperConnection, ARowHasTheSameBitsAloneAndInABatchAlignedOrNot) {
  REQUIRE_DEVICE();
  constexpr std::int32_t kStreams = 4;
  for (const DType dtype : kActivationTypes) {
    for (const std::int64_t rows : batch_sizes()) {
      struct Results {
        Twin x, h;
      };
      const auto run = [&](std::int64_t extra_pitch, std::int64_t step) {
        std::mt19937 rng(14);
        Twin g = Twin::random(dtype, rows, 40 * kStreams, rng, 1.0, extra_pitch);
        Twin inject = Twin::random(dtype, rows, kStreams, rng, 1.0, extra_pitch);
        Results results{Twin(dtype, rows, 40, extra_pitch),
                        Twin::random(dtype, rows, 40 * kStreams, rng, 1.0, extra_pitch)};
        on_device([&](Ops& ops, gpu::Stream& stream) -> gpu::Status {
          for (std::int64_t r = 0; r < rows; r += step) {
            const auto part = [&](Twin& m) { return m.part(true, r, step); };
            const gpu::Matrix x = part(results.x), h = part(results.h);
            RETURN_IF_ERROR(ops.mix_streams(stream, {x, part(g), h, kStreams}));
            RETURN_IF_ERROR(ops.inject_streams(stream, {h, x, part(inject), kStreams}));
          }
          return gpu::Done{};
        });
        return results;
      };
      Results together = run(16, rows), alone = run(16, 1), odd = run(kOddPitch, rows);
      EXPECT_TRUE(same_rows(together.x.from_device(), alone.x.from_device())) << rows;
      EXPECT_TRUE(same_rows(together.h.from_device(), alone.h.from_device())) << rows;
      EXPECT_TRUE(same_rows(together.x.from_device(), odd.x.from_device())) << rows;
      EXPECT_TRUE(same_rows(together.h.from_device(), odd.h.from_device())) << rows;
    }
  }
}

}  // namespace
}  // namespace kernels::testing
