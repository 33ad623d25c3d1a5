#include "tests/kernels/cuda/twin_pages.h"

namespace kernels::testing {
namespace {

/// On both sides of what one piece, a warp and a warp's longest group hold.
std::vector<std::int64_t> group_sizes() {
  std::vector<std::int64_t> sizes = {1, 8, 33, 64, 128, 255, 256, 257, 512, 513, 520, 2048, 2049};
  if (!TestDevice::get()->small()) sizes.insert(sizes.end(), {2560, 4096, 10240});
  return sizes;
}

TEST(CudaRmsNorm, AgreesWithTheCpuForEveryGroupAndBothWeights) {
  REQUIRE_DEVICE();
  std::mt19937 rng(41);
  for (const gpu::DType dtype : kActivationTypes) {
    for (const std::int64_t group : group_sizes()) {
      for (const std::int64_t groups : {1, 3}) {
        for (const bool elementwise : {false, true}) {
          const NormWeight kind = elementwise ? NormWeight::plain : NormWeight::one_plus;
          const std::int64_t rows = TestDevice::get()->small() ? 3 : 65;
          Twin x = Twin::random(dtype, rows, group * groups, rng, 3.0), y(dtype, rows, group * groups);
          Twin w = Twin::random(gpu::DType::f32, 1, elementwise ? group * groups : group, rng);
          on_both([&](Ops& ops, gpu::Stream& stream, bool device) {
            return ops.rms_norm(stream,
                                {y.at(device), x.at(device), vector_of(w, device), {group}, kind, 1e-5F});
          });
          y.expect_near("rms_norm");
          on_device([&](Ops& ops, gpu::Stream& stream) {
            return ops.rms_norm(stream, {x.device(), x.device(), vector_of(w, true), {group}, kind, 1e-5F});
          });
          EXPECT_TRUE(same_rows(x.from_device(), y.from_device())) << "in place, group " << group;
        }
      }
    }
  }
}

TEST(CudaRmsNorm, UnalignedRowsHaveTheBitsOfAlignedOnes) {
  REQUIRE_DEVICE();
  std::mt19937 rng(42);
  for (const gpu::DType dtype : kActivationTypes) {
    for (const std::int64_t group : {64, 512, 520, 2560}) {
      Twin x = Twin::random(dtype, 4, group, rng), aligned(dtype, 4, group), unaligned(dtype, 4, group, 17);
      Twin w = Twin::random(gpu::DType::f32, 1, group, rng);
      for (Twin* y : {&aligned, &unaligned}) {
        on_device([&](Ops& ops, gpu::Stream& stream) {
          return ops.rms_norm(stream, {y->device(), x.device(), vector_of(w, true), {group}});
        });
      }
      EXPECT_TRUE(same_rows(aligned.from_device(), unaligned.from_device())) << group;
    }
  }
}

TEST(CudaRmsNorm, ARowHasTheSameBitsAloneAndInAnyBatch) {
  REQUIRE_DEVICE();
  std::mt19937 rng(43);
  for (const gpu::DType dtype : kActivationTypes) {
    for (const std::int64_t group : {40, 2560}) {
      const std::int64_t most = TestDevice::get()->small() ? 70 : 300;
      DeviceMatrix x(OpMatrix::random(dtype, most, group, rng)), whole(OpMatrix(dtype, most, group));
      Twin w = Twin::random(gpu::DType::f32, 1, group, rng);
      const auto norm = [&](DeviceMatrix& y, std::int64_t first, std::int64_t rows) {
        on_device([&](Ops& ops, gpu::Stream& stream) {
          return ops.rms_norm(stream, {y.matrix().first_rows({rows}),
                                       x.matrix().from_row({first}).first_rows({rows}),
                                       vector_of(w, true),
                                       {group}});
        });
      };
      norm(whole, 0, most);
      for (const std::int64_t rows : batch_sizes()) {
        DeviceMatrix part(OpMatrix(dtype, rows, group));
        norm(part, most - rows, rows);
        EXPECT_TRUE(same_rows(part.download(), 0, whole.download(), most - rows, rows)) << rows << " rows";
      }
    }
  }
}

TEST(CudaGatedRmsNorm, NormsFirstAndGatesAfter) {
  REQUIRE_DEVICE();
  std::mt19937 rng(44);
  for (const gpu::DType dtype : kActivationTypes) {
    for (const GateActivation activation : {GateActivation::sigmoid, GateActivation::silu}) {
      for (const std::int64_t group : {8, 20, 32, 128, 600}) {
        for (const std::int64_t extra_pitch : {std::int64_t{16}, kOddPitch}) {
          Twin x = Twin::random(dtype, 4, group * 3, rng, 2.0), y(dtype, 4, group * 3);
          Twin z = Twin::random(dtype, 4, group * 3, rng, 3.0, extra_pitch);
          Twin w = Twin::random(gpu::DType::f32, 1, group, rng);
          on_both([&](Ops& ops, gpu::Stream& stream, bool device) {
            return ops.gated_rms_norm(
                stream,
                {y.at(device), x.at(device), z.at(device), vector_of(w, device), {group}, activation, 1e-6F});
          });
          y.expect_near("gated_rms_norm");
          on_device([&](Ops& ops, gpu::Stream& stream) {
            return ops.gated_rms_norm(
                stream, {x.device(), x.device(), z.device(), vector_of(w, true), {group}, activation, 1e-6F});
          });
          EXPECT_TRUE(same_rows(x.from_device(), y.from_device())) << "in place, group " << group;
        }
      }
    }
  }
}

struct HeadCase {
  std::int32_t heads, head_dim, head_stride;
  std::int64_t half;
  bool normed;
};
const HeadCase kHeadCases[] = {{3, 16, 16, 8, true},     {3, 16, 32, 4, true},     {2, 20, 20, 5, true},
                               {9, 64, 64, 32, false},   {4, 128, 128, 64, true},  {1, 128, 128, 32, true},
                               {24, 256, 512, 32, true}, {2, 256, 256, 32, false}, {1, 640, 640, 300, true}};

/// Segments that begin at near, far and farthest positions.
const std::vector<Segment> kFarSegments = {{0, 0, 3}, {1, 4097, 2}, {2, 262143, 1}, {3, 999999, 2}};

HeadNormRopeArgs head_args(const HeadCase& c, Twin& w, Twin& inv_freq, bool device) {
  HeadNormRopeArgs args;
  args.num_heads = c.heads;
  args.head_dim = c.head_dim;
  args.head_stride = c.head_stride;
  if (c.normed) args.w = vector_of(w, device);
  args.weight = c.head_dim % 3 == 0 ? NormWeight::plain : NormWeight::one_plus;
  args.rope = {{gpu::typed<float>(inv_freq.at(device)).base, {c.half}}, 1.25F};
  return args;
}
Twin frequencies(std::int64_t half) {
  OpMatrix inv_freq(gpu::DType::f32, 1, half);
  for (std::int64_t i = 0; i < half; ++i)
    inv_freq.set(0, i, std::pow(1e7, -static_cast<double>(i) / static_cast<double>(half)));
  return Twin(inv_freq);
}

TEST(CudaHeadNormRope, AgreesWithTheCpuAtFarPositions) {
  REQUIRE_DEVICE();
  std::mt19937 rng(45);
  const TwinBatch batch(Form::prefill, kFarSegments);
  for (const gpu::DType dtype : kActivationTypes) {
    for (const HeadCase& c : kHeadCases) {
      for (const std::int64_t extra_pitch : {std::int64_t{16}, kOddPitch}) {
        Twin x = Twin::random(dtype, batch.num_rows(), c.heads * c.head_stride, rng, 2.0, extra_pitch);
        Twin y(dtype, batch.num_rows(), c.heads * c.head_dim);
        Twin w = Twin::random(gpu::DType::f32, 1, c.head_dim, rng), inv_freq = frequencies(c.half);
        on_both([&](Ops& ops, gpu::Stream& stream, bool device) {
          HeadNormRopeArgs args = head_args(c, w, inv_freq, device);
          args.y = y.at(device);
          args.x = x.at(device);
          return ops.head_norm_rope(stream, batch.at(device), args);
        });
        y.expect_near("head_norm_rope");
        if (c.head_stride != c.head_dim) continue;
        on_device([&](Ops& ops, gpu::Stream& stream) {
          HeadNormRopeArgs args = head_args(c, w, inv_freq, true);
          args.y = x.device();
          args.x = x.device();
          return ops.head_norm_rope(stream, batch.at(true), args);
        });
        EXPECT_TRUE(same_rows(x.from_device(), y.from_device())) << "in place, head_dim " << c.head_dim;
      }
    }
  }
}

TEST(CudaHeadNormRope, ARowHasTheSameBitsAloneInBothForms) {
  REQUIRE_DEVICE();
  std::mt19937 rng(46);
  const HeadCase c{3, 128, 256, 32, true};
  for (const gpu::DType dtype : kActivationTypes) {
    const std::int32_t rows = TestDevice::get()->small() ? 33 : 300;
    const TwinBatch batch(Form::prefill, {{0, 4000, rows}});
    Twin x = Twin::random(dtype, rows, c.heads * c.head_stride, rng),
         whole(dtype, rows, c.heads * c.head_dim);
    Twin w = Twin::random(gpu::DType::f32, 1, c.head_dim, rng), inv_freq = frequencies(c.half);
    HeadNormRopeArgs args = head_args(c, w, inv_freq, true);
    args.y = whole.device();
    args.x = x.device();
    on_device(
        [&](Ops& ops, gpu::Stream& stream) { return ops.head_norm_rope(stream, batch.at(true), args); });
    for (std::int32_t r = 0; r < rows; r += 3) {
      Twin alone(dtype, 1, c.heads * c.head_dim);
      const TwinBatch one(r % 2 == 0 ? Form::decode : Form::prefill, {{0, 4000 + r, 1}});
      args.y = alone.device();
      args.x = x.part(true, r, 1);
      on_device(
          [&](Ops& ops, gpu::Stream& stream) { return ops.head_norm_rope(stream, one.at(true), args); });
      EXPECT_TRUE(same_rows(alone.from_device(), 0, whole.from_device(), r, 1)) << "row " << r;
    }
  }
}

}  // namespace
}  // namespace kernels::testing
