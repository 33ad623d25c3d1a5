#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "gpu/file/file_reader.h"

namespace gpu {

/// Batches on their way through a reader's threads, oldest first. Any thread.
class ReadQueue {
 public:
  /// Reads [first, last) of a batch, for one thread to do.
  struct Share {
    ReadBatch* batch = nullptr;
    std::size_t first = 0, last = 0;
  };

  void begin(ReadBatch& batch) {
    batch.failures.clear();
    batch.taken_ = batch.done_ = 0;
    if (batch.reads.empty()) return;
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(&batch);
    }
    more_.notify_all();
  }
  /// Calls `progressed`, without the lock, as long as more of the batch has ended each time it looks.
  void wait(ReadBatch& batch, const std::function<void()>& progressed) {
    constexpr std::chrono::milliseconds kLook{100};
    std::unique_lock lock(mutex_);
    std::size_t seen = 0;
    while (!ended_.wait_for(lock, kLook, [&] { return batch.done_ == batch.reads.size(); })) {
      if (std::exchange(seen, batch.done_) == batch.done_) continue;
      lock.unlock();
      progressed();
      lock.lock();
    }
  }

  enum class Idle { wait, go_on };
  /// Up to `most` reads. None: there are none now (Idle::go_on), or there will be none any more.
  std::optional<Share> take(std::size_t most, Idle idle) {
    std::unique_lock lock(mutex_);
    if (idle == Idle::wait) more_.wait(lock, [&] { return closed_ || !waiting_.empty(); });
    if (waiting_.empty()) return std::nullopt;
    ReadBatch& batch = *waiting_.front();
    const Share share{&batch, batch.taken_, std::min(batch.reads.size(), batch.taken_ + most)};
    batch.taken_ = share.last;
    if (share.last == batch.reads.size()) waiting_.pop_front();
    return share;
  }
  /// A read has ended; "" is well.
  void done(ReadBatch& batch, std::size_t read, std::string what) {
    const std::lock_guard lock(mutex_);
    if (!what.empty()) batch.failures.push_back({read, std::move(what)});
    if (++batch.done_ == batch.reads.size()) ended_.notify_all();
  }
  /// Batches that were begun are still done.
  void close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    more_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable more_, ended_;
  std::deque<ReadBatch*> waiting_;  // not yet taken whole
  bool closed_ = false;
};

}  // namespace gpu
