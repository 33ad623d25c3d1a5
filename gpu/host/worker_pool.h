#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace gpu {

/// Shares the tiles of one operation among the calling thread and num_workers - 1 threads. Owned by a
/// HostStream and called by its thread.
///
///   worker:  parked ──wake_ changed──▶ enter (while the job is open) ──no tile left──▶ leave ──▶ spin a
///   little ──▶ parked
///
/// A job is open from its first tile until the caller finds none left; the caller then waits only for workers
/// that entered, never for one that is still asleep. Invariant: the job's fields change only while it is
/// closed and nobody is inside.
class WorkerPool {
 public:
  /// Throws what std::thread throws when there is no thread to be had.
  explicit WorkerPool(int num_workers);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// Runs `tile` for each index in [0, num_tiles). True when every tile returned; false when one threw (the
  /// rest of the tiles may be left out, and what it threw is dropped).
  bool run(std::int64_t num_tiles, const std::function<void(std::int64_t)>& tile);

  int num_workers() const { return static_cast<int>(threads_.size()) + 1; }

 private:
  void stop();
  void work();
  bool enter();
  void leave();
  void take_tiles() noexcept;

  static constexpr std::uint32_t kOpen = 1U << 31;  // the other bits of entered_ count the workers inside

  alignas(64) std::atomic<std::uint32_t> wake_{0};  // raised once a job; workers park on it
  std::atomic<bool> stop_{false};
  alignas(64) std::atomic<std::uint32_t> entered_{0};
  alignas(64) std::atomic<std::int64_t> next_tile_{0};
  std::atomic<bool> threw_{false};
  std::int64_t num_tiles_ = 0;
  const std::function<void(std::int64_t)>* tile_ = nullptr;
  std::vector<std::thread> threads_;
};

}  // namespace gpu
