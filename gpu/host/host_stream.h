#pragma once

#include <atomic>
#include <optional>
#include <string>

#include "gpu/host/worker_pool.h"
#include "gpu/stream.h"

namespace gpu {

/// The CPU's stream: an operation has run when its call returns, so synchronize has nothing to wait for. Made
/// by the host device, owned and called by one thread; progress() may be read by any.
class PooledHostStream final : public HostStream {
 public:
  explicit PooledHostStream(int num_workers) : pool_(num_workers) {}

  Status synchronize() override;
  Status fill_zero(std::byte* base, Bytes size, const char* what) override;
  Status copy(std::byte* to, const std::byte* from, Bytes size, const char* what) override;
  Status copy_to_device(std::byte* to, const void* from, Bytes size, const char* what) override;
  Status copy_to_host(void* to, const std::byte* from, Bytes size, const char* what) override;
  std::uint64_t progress() const override { return progress_.load(std::memory_order_acquire); }
  void note_progress() override { progress_.fetch_add(1, std::memory_order_release); }
  Status parallel(const char* what, std::int64_t num_tiles,
                  const std::function<void(std::int64_t)>& tile) override;
  /// As a device would: a refused launch is this call's answer; after the others every later call is lost.
  Status inject(InjectedFault fault, const char* what) override;

 private:
  WorkerPool pool_;
  std::optional<std::string> lost_;
  std::atomic<std::uint64_t> progress_{0};
};

}  // namespace gpu
