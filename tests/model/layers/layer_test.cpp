#include "model/layers/layer.h"

#include <gtest/gtest.h>

#include <vector>

#include "gpu/device.h"
#include "model/layers/hyper_connection.h"

namespace model {
namespace {

class LayerTest : public ::testing::Test {
 protected:
  LayerTest()
      : device_(gpu::make_host_device(1)), stream_(*device_->create_stream()), ops_(kernels::make_cpu_ops()) {
    arena_ = gpu::Arena(*device_->allocate(gpu::Bytes{1 << 16}, "scratch"));
  }
  StepContext context(std::int64_t rows, std::int64_t capacity) {
    StepContext made{*stream_, *ops_, arena_, DType::f32, Rows{capacity}, {}, {}, {}};
    made.batch.num_rows = Rows{rows};
    return made;
  }
  Matrix matrix(std::vector<float>& values, std::int64_t rows) {
    const std::int64_t cols = std::ssize(values) / rows;
    return {reinterpret_cast<std::byte*>(values.data()), DType::f32, Rows{rows}, Elements{cols},
            Elements{cols}};
  }

  std::unique_ptr<gpu::Device> device_;
  std::unique_ptr<gpu::Stream> stream_;
  std::unique_ptr<kernels::Ops> ops_;
  gpu::Arena arena_;
};

TEST_F(LayerTest, ScratchIsTakenAtCapacityAndGivenBack) {
  StepContext few = context(2, 10);
  gpu::Bytes after_two;
  {
    Scratch scratch(few);
    const Matrix taken = scratch.matrix(5, "some");
    ASSERT_TRUE(scratch.status().ok());
    EXPECT_EQ(taken.rows, Rows{2});
    EXPECT_EQ(taken.pitch, Elements{8});
    EXPECT_EQ(scratch.indices(3, 4, "order").size, Elements{10});
    after_two = arena_.mark();
  }
  EXPECT_EQ(arena_.mark(), gpu::Bytes{});
  StepContext all = context(10, 10);
  Scratch scratch(all);
  scratch.matrix(5, "some");
  scratch.indices(3, 4, "order");
  EXPECT_EQ(arena_.mark(), after_two);
}

TEST_F(LayerTest, AnOverflowOfTheArenaSticksAndNamesWhatWasTaken) {
  StepContext wide = context(1, 10);
  Scratch scratch(wide);
  scratch.matrix(1 << 20, "far too wide");
  scratch.matrix(1, "narrow");
  ASSERT_FALSE(scratch.status().ok());
  EXPECT_EQ(scratch.status().error().kind, gpu::DeviceError::Kind::refused);
  EXPECT_NE(scratch.status().error().what.find("far too wide"), std::string::npos);
}

// model-spec 9.3: with zero weights every gate is 1/2, and zero injection logits add the block's output as it
// is.
TEST_F(LayerTest, AHyperConnectionOfZeroWeightsHalvesTheMeanAndInjectsPlainly) {
  ModelConfig config;
  config.hidden_size = 8;
  config.hyper_connection = HyperConnectionConfig{2, 8};
  config.norm_weight = kernels::NormWeight::one_plus;
  config.rms_norm_eps = 0.0F;
  std::vector<float> norm(16, 0.0F), down(8 * 16, 0.0F), up(16 * 8, 0.0F), inject_weight(2 * 16, 0.0F);
  HyperConnectionWeights weights;
  weights.norm = {reinterpret_cast<const std::byte*>(norm.data()), DType::f32, Elements{16}};
  weights.down.matrix = matrix(down, 8);
  weights.up.matrix = matrix(up, 16);
  weights.inject = kernels::Weight{matrix(inject_weight, 2)};
  const HyperConnection hc(config, weights);

  std::vector<float> streams(16), x(8), inject(4), y(8);
  for (std::size_t i = 0; i < 8; ++i) {
    streams[i] = i % 2 == 0 ? 2.0F : -2.0F;  // normed to ±1
    streams[8 + i] = 3.0F;                   // normed to 1
    y[i] = static_cast<float>(i);
  }
  StepContext one = context(1, 1);
  Matrix inject_view = matrix(inject, 1).columns(Elements{0}, Elements{2});
  ASSERT_TRUE(hc.mix(one, matrix(streams, 1), matrix(x, 1), inject_view).ok());
  for (std::size_t i = 0; i < 8; ++i) EXPECT_FLOAT_EQ(x[i], i % 2 == 0 ? 0.5F : 0.0F) << i;
  const auto before = streams;
  ASSERT_TRUE(hc.inject(one, matrix(streams, 1), matrix(y, 1), inject_view).ok());
  for (std::size_t i = 0; i < 16; ++i) EXPECT_FLOAT_EQ(streams[i], before[i] + y[i % 8]) << i;
}

}  // namespace
}  // namespace model
