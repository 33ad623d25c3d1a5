#include "gpu/cuda/cuda_device.h"

#include <cuda_runtime.h>

#include <string>

#include "gpu/cuda/check.h"
#include "gpu/cuda/cuda_stream.h"
#include "gpu/cuda/fault_kernels.h"

/// Of the library that the backend links. Null where it links none (the emulated backend).
extern "C" __attribute__((weak)) std::size_t cublasLtGetVersion();

namespace gpu {
namespace {

std::string named(cudaError_t error) {
  return std::string(cudaGetErrorName(error)) + " (" + cudaGetErrorString(error) + ")";
}

int attribute(cudaDeviceAttr which) {
  int value = 0;
  return cudaDeviceGetAttribute(&value, which, 0) == cudaSuccess ? value : 0;
}

int compute_capability() {
  return 10 * attribute(cudaDevAttrComputeCapabilityMajor) + attribute(cudaDevAttrComputeCapabilityMinor);
}

/// 13020 is 13.2.
std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string library_versions() {
  int driver = 0, runtime = 0;
  (void)cudaDriverGetVersion(&driver);
  (void)cudaRuntimeGetVersion(&runtime);
  std::string text = "driver for CUDA " + version_text(driver) + ", runtime " + version_text(runtime);
  if (&cublasLtGetVersion != nullptr) {  // 130100 is 13.1.0
    const std::size_t version = cublasLtGetVersion();
    text += ", cuBLASLt " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) +
            "." + std::to_string(version % 100);
  }
  return text;
}

class CudaDevice final : public Device {
 public:
  DeviceFacts facts() const override {
    std::size_t free = 0, total = 0;
    (void)cudaMemGetInfo(&free, &total);
    DeviceFacts facts;
    facts.backend = Backend::cuda;
    cudaDeviceProp properties = {};
    if (cudaGetDeviceProperties(&properties, 0) == cudaSuccess) facts.name = properties.name;
    facts.memory_total = {static_cast<std::int64_t>(total)};
    facts.memory_free = {static_cast<std::int64_t>(free)};
    facts.num_workers = attribute(cudaDevAttrMultiProcessorCount);
    facts.compute_capability = compute_capability();
    facts.libraries = library_versions();
    return facts;
  }

  Result<Buffer, DeviceError> allocate(Bytes size, const char* what) override {
    const std::string name = std::string("allocate ") + what;
    if (size.n < 0) return refused(name + ": " + std::to_string(size.n) + " bytes");
    if (size.n == 0) return Buffer{};
    void* base = nullptr;
    const cudaError_t error = cudaMalloc(&base, static_cast<std::size_t>(size.n));
    if (error == cudaErrorMemoryAllocation) {
      (void)cudaGetLastError();
      std::size_t free = 0, total = 0;
      (void)cudaMemGetInfo(&free, &total);
      return refused(name + ": " + std::to_string(size.n) + " bytes wanted, " + std::to_string(free) +
                     " of " + std::to_string(total) + " free");
    }
    RETURN_IF_ERROR(check(error, name.c_str()));
    return Buffer(this, static_cast<std::byte*>(base), size);
  }

  Result<std::unique_ptr<Stream>, DeviceError> create_stream() override { return CudaStream::create(); }

 private:
  void free(std::byte* base, Bytes) noexcept override { (void)cudaFree(base); }
};

}  // namespace

Result<std::unique_ptr<Device>, DeviceError> make_cuda_device() {
  int count = 0;
  if (const auto error = cudaGetDeviceCount(&count); error != cudaSuccess || count == 0) {
    (void)cudaGetLastError();
    return refused("no CUDA device: " + (error != cudaSuccess ? named(error) : "none is visible"));
  }
  if (const auto error = cudaSetDevice(0); error != cudaSuccess) {
    (void)cudaGetLastError();
    return refused("CUDA device 0: " + named(error));
  }
  cudaError_t error = launch_probe();
  if (error == cudaSuccess) error = cudaDeviceSynchronize();
  if (error != cudaSuccess) {
    (void)cudaGetLastError();
    const int capability = compute_capability();
    if (error == cudaErrorNoKernelImageForDevice) {
      return refused("CUDA device 0: compute capability " + std::to_string(capability / 10) + "." +
                     std::to_string(capability % 10) + " has no code in this build");
    }
    return refused("CUDA device 0: a first kernel answered " + named(error));
  }
  return std::unique_ptr<Device>(std::make_unique<CudaDevice>());
}

}  // namespace gpu
