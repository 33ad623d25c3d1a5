#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "gpu/buffer.h"
#include "gpu/error.h"
#include "gpu/stream.h"

namespace gpu {

enum class Backend { cpu, cuda };
constexpr const char* to_string(Backend backend) { return backend == Backend::cpu ? "cpu" : "cuda"; }

/// What a plan needs to know of a device. Plain data.
struct DeviceFacts {
  Backend backend = Backend::cpu;
  std::string name;
  Bytes memory_total;
  Bytes memory_free;
  int num_workers = 1;         ///< CPU: worker threads of the stream; CUDA: multiprocessors
  int compute_capability = 0;  ///< CUDA: 90 is 9.0
  std::string libraries;       ///< CUDA: versions of driver, runtime and cuBLASLt, for the log
};

/// Memory and streams of one device. Called by the one thread that owns the device.
class Device {
 public:
  virtual ~Device() = default;
  virtual DeviceFacts facts() const = 0;
  /// 256-byte aligned. On the host pages are touched lazily and read as zero; on CUDA the content is
  /// undefined.
  virtual Result<Buffer, DeviceError> allocate(Bytes size, const char* what) = 0;
  /// A wish for speed: the whole buffer will be filled, and then read from end to end again and again
  /// (weights).
  virtual void expect_streaming(const Buffer&) {}
  virtual Result<std::unique_ptr<Stream>, DeviceError> create_stream() = 0;

 private:
  friend class Buffer;
  virtual void free(std::byte* base, Bytes size) noexcept = 0;
};

/// The CPU as a device: `num_workers` threads (the calling one included) share each operation's tiles.
std::unique_ptr<Device> make_host_device(int num_workers);

}  // namespace gpu
