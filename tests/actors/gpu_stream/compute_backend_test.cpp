#include "actors/gpu_stream/compute_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace actors {
namespace {

using testing::ElementsAre;
using Module = gpu::Result<const kernels::BackendModule*, kernels::BackendUnavailable>;

/// A device with facts and nothing else.
class PaperDevice final : public gpu::Device {
 public:
  gpu::DeviceFacts facts() const override {
    gpu::DeviceFacts facts;
    facts.backend = gpu::Backend::cuda;
    facts.name = "Paper 9000";
    facts.compute_capability = 90;
    facts.libraries = "driver 13.0";
    return facts;
  }
  gpu::Result<gpu::Buffer, gpu::DeviceError> allocate(gpu::Bytes, const char*) override {
    return gpu::refused("paper");
  }
  gpu::Result<std::unique_ptr<gpu::Stream>, gpu::DeviceError> create_stream() override {
    return gpu::refused("paper");
  }

 private:
  void free(std::byte*, gpu::Bytes) noexcept override {}
};

using MadeDevice = gpu::Result<std::unique_ptr<gpu::Device>, gpu::DeviceError>;
MadeDevice make_paper() { return std::unique_ptr<gpu::Device>(std::make_unique<PaperDevice>()); }
MadeDevice make_none() { return gpu::refused("no CUDA-capable device is detected"); }
const kernels::BackendModule kPaper{kernels::kBackendAbi, "cuda", make_paper, nullptr};
const kernels::BackendModule kNone{kernels::kBackendAbi, "cuda", make_none, nullptr};

Module paper() { return &kPaper; }
Module without_device() { return &kNone; }
Module not_there() { return kernels::BackendUnavailable{"lib/atlas_cuda.so: not there"}; }
Module not_to_be_asked() {
  ADD_FAILURE() << "a module was looked for";
  return not_there();
}

TEST(ComputeBackend, AutoTakesTheModulesDevice) {
  const auto backend = choose_backend({"auto", 2, ""}, paper);
  ASSERT_TRUE(backend.ok());
  EXPECT_EQ(backend->module, &kPaper);
  EXPECT_EQ(backend->facts.backend, gpu::Backend::cuda);
  EXPECT_EQ(backend->facts.name, backend->device->facts().name);
  EXPECT_EQ(describe(*backend), "backend cuda: Paper 9000, compute capability 9.0, driver 13.0");
}

TEST(ComputeBackend, AutoFallsBackToTheCpuAndSaysWhy) {
  const auto absent = choose_backend({"auto", 3, ""}, not_there);
  ASSERT_TRUE(absent.ok());
  EXPECT_EQ(absent->module, nullptr);
  EXPECT_EQ(describe(*absent), "backend cpu (3 workers): lib/atlas_cuda.so: not there");
  const auto deviceless = choose_backend({"auto", 1, ""}, without_device);
  ASSERT_TRUE(deviceless.ok());
  EXPECT_EQ(describe(*deviceless), "backend cpu (1 workers): no CUDA-capable device is detected");
}

TEST(ComputeBackend, CudaWithoutADeviceIsAProblemThatGivesTheReason) {
  EXPECT_THAT(choose_backend({"cuda", 1, ""}, not_there).error().problems,
              ElementsAre("--backend cuda: lib/atlas_cuda.so: not there"));
  EXPECT_THAT(choose_backend({"cuda", 1, ""}, without_device).error().problems,
              ElementsAre("--backend cuda: no CUDA-capable device is detected"));
}

TEST(ComputeBackend, CpuLooksForNoModule) {
  const auto backend = choose_backend({"cpu", 2, ""}, not_to_be_asked);
  ASSERT_TRUE(backend.ok());
  EXPECT_EQ(describe(*backend), "backend cpu (2 workers)");
}

TEST(ComputeBackend, AModelThatNeedsTheCpuIsServedThereWithoutLookingForADevice) {
  const auto backend = choose_backend({"auto", 2, "x.gguf: quantised"}, not_to_be_asked);
  ASSERT_TRUE(backend.ok());
  EXPECT_EQ(describe(*backend), "backend cpu (2 workers): x.gguf: quantised");
  EXPECT_THAT(choose_backend({"cuda", 2, "x.gguf: quantised"}, not_to_be_asked).error().problems,
              ElementsAre("--backend cuda: x.gguf: quantised"));
}

TEST(ComputeBackend, IsToldAsFacts) {
  const BackendInfo gpu = info_of(*choose_backend({"cuda", 2, ""}, paper));
  EXPECT_EQ(gpu.name, "cuda");
  EXPECT_EQ(gpu.device, "Paper 9000");
  EXPECT_EQ(gpu.compute_capability, "9.0");
  EXPECT_EQ(gpu.libraries, "driver 13.0");
  const BackendInfo cpu = info_of(*choose_backend({"cpu", 2, ""}, not_to_be_asked));
  EXPECT_EQ(cpu.name, "cpu");
  EXPECT_EQ(cpu.compute_capability, "");
}

}  // namespace
}  // namespace actors
