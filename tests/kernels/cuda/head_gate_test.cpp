#include "tests/kernels/cuda/twin_pages.h"

namespace kernels::testing {
namespace {

struct Shape {
  std::int64_t rows;
  std::int32_t heads, head_dim;
};

/// The gates of `projected`, whose heads hold query and gate in turn.
HeadGateArgs gate_args(gpu::Matrix y, gpu::ConstMatrix projected, const Shape& s) {
  const std::int64_t dim = s.head_dim;
  return {y, projected.columns({dim}, {(2 * s.heads - 1) * dim}), s.heads, s.head_dim, 2 * s.head_dim};
}

std::vector<Shape> shapes() {
  std::vector<Shape> all = {{1, 1, 8}, {5, 3, 16}, {2, 3, 20}, {3, 2, 7}, {7, 4, 64}, {1, 24, 256}};
  if (!TestDevice::get()->small()) all.insert(all.end(), {{64, 24, 256}, {4095, 24, 256}});
  return all;
}

TEST(CudaHeadGate, MultipliesByTheSigmoidOfInterleavedGates) {
  REQUIRE_DEVICE();
  std::mt19937 rng(17);
  for (const gpu::DType dtype : kActivationTypes) {
    for (const Shape& s : shapes()) {
      for (const std::int64_t extra_pitch : {std::int64_t{16}, kOddPitch}) {
        Twin projected = Twin::random(dtype, s.rows, 2 * s.heads * s.head_dim, rng, 5.0, extra_pitch);
        Twin y = Twin::random(dtype, s.rows, s.heads * s.head_dim, rng, 1.0, extra_pitch);
        on_both([&](Ops& ops, gpu::Stream& stream, bool device) {
          return ops.head_gate(stream, gate_args(y.at(device), projected.at(device), s));
        });
        y.expect_near("gated heads");
      }
    }
  }
}

TEST(CudaHeadGate, ARowHasTheSameBitsAloneAndInAnyBatch) {
  REQUIRE_DEVICE();
  std::mt19937 rng(18);
  for (const gpu::DType dtype : kActivationTypes) {
    const Shape s{70, 3, 40};
    const OpMatrix projected = OpMatrix::random(dtype, s.rows, 2 * s.heads * s.head_dim, rng, 3.0);
    const OpMatrix y = OpMatrix::random(dtype, s.rows, s.heads * s.head_dim, rng);
    DeviceMatrix gates(projected), whole(y), alone(y);
    on_device([&](Ops& ops, gpu::Stream& stream) {
      return ops.head_gate(stream, gate_args(whole.matrix(), gates.matrix(), s));
    });
    for (std::int64_t r = 0; r < s.rows; ++r) {
      on_device([&](Ops& ops, gpu::Stream& stream) {
        return ops.head_gate(stream, gate_args(alone.matrix().from_row({r}).first_rows({1}),
                                               gates.matrix().from_row({r}).first_rows({1}), {1, 3, 40}));
      });
    }
    EXPECT_TRUE(same_rows(whole.download(), alone.download()));
  }
}

}  // namespace
}  // namespace kernels::testing
