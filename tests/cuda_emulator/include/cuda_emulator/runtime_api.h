#pragma once

#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "cuda_emulator/types.h"

/// The part of the runtime API that gpu/cuda and kernels/cuda use. Work is queued as on a device and runs
/// when somebody waits for it, so a result read too early or memory reused too early shows.

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInvalidDevicePointer = 17,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorNoKernelImageForDevice = 209,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorNotReady = 600,
  cudaErrorIllegalAddress = 700,
  cudaErrorLaunchOutOfResources = 701,
  cudaErrorMisalignedAddress = 716,
  cudaErrorLaunchFailure = 719,
  cudaErrorUnknown = 999,
};
const char* cudaGetErrorName(cudaError_t error);
const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();

// ---- device ----

struct cudaDeviceProp {
  char name[256];
  std::size_t totalGlobalMem;
  std::size_t sharedMemPerBlockOptin;
  int multiProcessorCount;
  int major, minor;
};
enum cudaDeviceAttr {
  cudaDevAttrMaxThreadsPerBlock = 1,
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrComputeCapabilityMinor = 76,
  cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
};
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaRuntimeGetVersion(int* version);
cudaError_t cudaDeviceSynchronize();

// ---- memory ----

enum cudaMemcpyKind {
  cudaMemcpyHostToHost,
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault
};
inline constexpr unsigned cudaHostAllocDefault = 0;
inline constexpr unsigned cudaHostAllocPortable = 1;
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total);
cudaError_t cudaMalloc(void** base, std::size_t size);
template <class T>
cudaError_t cudaMalloc(T** base, std::size_t size) {
  return cudaMalloc(reinterpret_cast<void**>(base), size);
}
cudaError_t cudaFree(void* base);
cudaError_t cudaHostAlloc(void** base, std::size_t size, unsigned flags);
template <class T>
cudaError_t cudaHostAlloc(T** base, std::size_t size, unsigned flags) {
  return cudaHostAlloc(reinterpret_cast<void**>(base), size, flags);
}
template <class T>
cudaError_t cudaMallocHost(T** base, std::size_t size) {
  return cudaHostAlloc(base, size, cudaHostAllocDefault);
}
cudaError_t cudaFreeHost(void* base);
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t size, cudaMemcpyKind kind);
cudaError_t cudaMemset(void* base, int value, std::size_t size);

// ---- streams and events ----

using cudaStream_t = struct CUstream_st*;
using cudaEvent_t = struct CUevent_st*;
inline constexpr unsigned cudaStreamDefault = 0;
inline constexpr unsigned cudaStreamNonBlocking = 1;
inline constexpr unsigned cudaEventDefault = 0;
inline constexpr unsigned cudaEventBlockingSync = 1;
inline constexpr unsigned cudaEventDisableTiming = 2;
cudaError_t cudaStreamCreate(cudaStream_t* stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t size, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* base, int value, std::size_t size, cudaStream_t stream);
cudaError_t cudaEventCreate(cudaEvent_t* event);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);

// ---- launches ----

enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
  cudaFuncAttributePreferredSharedMemoryCarveout = 9
};
struct cudaLaunchAttribute;
struct cudaLaunchConfig_t {
  dim3 gridDim;
  dim3 blockDim;
  std::size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
  cudaLaunchAttribute* attrs = nullptr;
  unsigned numAttrs = 0;
};

namespace cuda_emulator {

cudaError_t set_function_attribute(const void* kernel, cudaFuncAttribute attribute, int value);
/// `run` calls the kernel once, as the thread that is current then.
cudaError_t launch(const cudaLaunchConfig_t& config, const void* kernel, std::function<void()> run);
/// Ends the process when a kernel's argument holds the address of memory that a device could not reach, which
/// plain C++ would read without a word.
void check_argument(const void* kernel, const void* argument, std::size_t size);
/// The same of a copy without what lies between members, which is whatever the stack held, an address
/// perhaps. Not inlined: gcc 12 drops stores to members that it can see before the builtin.
template <class T>
[[gnu::noinline]] void check_members(const void* kernel, T argument) {
#if __has_builtin(__builtin_clear_padding)
  __builtin_clear_padding(&argument);
#endif
  check_argument(kernel, &argument, sizeof(argument));
}
/// Work of a library that is not emulated, in the stream's order.
cudaError_t enqueue(cudaStream_t stream, std::function<void()> work);

}  // namespace cuda_emulator

template <class Kernel>
cudaError_t cudaFuncSetAttribute(Kernel* kernel, cudaFuncAttribute attribute, int value) {
  return cuda_emulator::set_function_attribute(reinterpret_cast<const void*>(kernel), attribute, value);
}

template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  static_assert((std::is_trivially_copyable_v<Parameters> && ...),
                "a kernel's arguments are copied as bytes");
  std::tuple<Parameters...> values(std::forward<Arguments>(arguments)...);
  const auto* const address = reinterpret_cast<const void*>(kernel);
  std::apply([address](auto&... value) { (cuda_emulator::check_members(address, value), ...); }, values);
  return cuda_emulator::launch(*config, address, [kernel, values] { std::apply(kernel, values); });
}
