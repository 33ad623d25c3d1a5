#include "tests/kernels/cuda/twin_pages.h"

namespace kernels::testing {
namespace {

TEST(CudaKvAppend, RowsLandInTheirPagesAndNothingElseIsTouched) {
  REQUIRE_DEVICE();
  std::mt19937 rng(11);
  for (const gpu::DType dtype : kActivationTypes) {
    for (const std::int32_t block : {16, 32, 64}) {
      for (const std::int64_t extra_pitch : {std::int64_t{16}, kOddPitch}) {
        TwinPages pages(3, 200, block, rng);
        const TwinBatch batch(Form::prefill,
                              {{2, block - 1, 3}, {0, 2 * block - 2, 1}, {1, 0, 2 * block + 1}});
        const std::int64_t width = 3 * 24;
        Twin k = Twin::random(dtype, batch.num_rows(), width, rng, 1.0, extra_pitch);
        Twin v = Twin::random(dtype, batch.num_rows(), width, rng, 1.0, extra_pitch);
        Twin k_cache(dtype, pages.num_rows(), width, extra_pitch), v_cache(dtype, pages.num_rows(), width);
        on_both([&](Ops& ops, gpu::Stream& stream, bool device) {
          return ops.kv_append(
              stream, batch.at(device),
              {k_cache.at(device), v_cache.at(device), k.at(device), v.at(device), pages.tables(device)});
        });
        k_cache.expect_equal("keys");
        v_cache.expect_equal("values");
      }
    }
  }
}

TEST(CudaKvAppend, NoRowsAreNoWork) {
  REQUIRE_DEVICE();
  on_device([](Ops& ops, gpu::Stream& stream) { return ops.kv_append(stream, {}, {}); });
  EXPECT_EQ(complaint_of_step(), "");
}

}  // namespace
}  // namespace kernels::testing
