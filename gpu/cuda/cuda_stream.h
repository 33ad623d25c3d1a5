#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpu/cuda/fault_record.h"
#include "gpu/stream.h"

namespace gpu {

/// A CUDA stream. Uploads go through a ring of pinned staging memory, so that the caller's bytes may be
/// reused at return and nothing waits unless the ring is full; downloads land in pinned memory and reach
/// their places at `synchronize`. Operations that fail synchronously are classified where they fail
/// (check.h); what fails later is found by `synchronize`, which also reads the fault record. Once lost, every
/// call answers lost.
class CudaStream final : public Stream {
 public:
  static Result<std::unique_ptr<Stream>, DeviceError> create();
  ~CudaStream() override;

  Status synchronize() override;
  Status fill_zero(std::byte* base, Bytes size, const char* what) override;
  Status copy(std::byte* to, const std::byte* from, Bytes size, const char* what) override;
  Status copy_to_device(std::byte* to, const void* from, Bytes size, const char* what) override;
  Status copy_to_host(void* to, const std::byte* from, Bytes size, const char* what) override;
  std::uint64_t progress() const override { return progress_.load(std::memory_order_relaxed); }
  void note_progress() override { progress_.fetch_add(1, std::memory_order_relaxed); }
  Status inject(InjectedFault fault, const char* what) override;

  cudaStream_t handle() const { return stream_; }
  /// Where kernels of this stream report values out of range (device memory).
  FaultRecord* faults() const { return faults_; }
  /// check() of an error, remembering a loss.
  Status check(cudaError_t error, const char* what);

 private:
  CudaStream() = default;
  Status start();
  Status take_staging(Bytes size, std::byte** place);
  Status note_staging_read(const char* what);
  Status take_download(Bytes size, std::byte** place);
  void deliver_downloads();
  Status read_faults();

  struct Staging {
    std::byte* base = nullptr;   // pinned
    cudaEvent_t read = nullptr;  // recorded after the last copy out of it
    bool in_flight = false;
  };
  /// Pinned memory that downloads land in. Several only while a step downloads more than ever before: a block
  /// with copies under way is never moved.
  struct DownloadBlock {
    std::byte* base = nullptr;
    Bytes size;
  };
  struct Download {
    void* to = nullptr;
    const std::byte* from = nullptr;  // pinned
    std::size_t size = 0;
  };

  cudaStream_t stream_ = nullptr;
  FaultRecord* faults_ = nullptr;       // device
  FaultRecord* faults_seen_ = nullptr;  // pinned
  std::vector<Staging> staging_;
  std::size_t staging_index_ = 0;
  Bytes staging_used_;  // of the current one
  std::vector<DownloadBlock> download_blocks_;
  Bytes downloads_used_;  // of the last block
  std::vector<Download> downloads_;
  std::optional<std::string> lost_;
  std::atomic<std::uint64_t> progress_{0};
};

}  // namespace gpu
