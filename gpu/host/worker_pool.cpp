#include "gpu/host/worker_pool.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

namespace gpu {
namespace {

// Operations of one step follow each other within microseconds; a worker that parks between them would pay a
// system call and a wake-up each time. About 20 us of spinning bridges the gap, and a stream without work
// costs nothing.
constexpr int kSpins = 1000;
// Text work, sockets and health probes come first when there are fewer processors than threads.
constexpr int kWorkerNice = 5;

void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

void lower_priority() {
  // On Linux this is a thread's own value. A refusal changes speed alone.
  (void)setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kWorkerNice);
}

}  // namespace

WorkerPool::WorkerPool(int num_workers) {
  try {
    for (int i = 1; i < num_workers; ++i) {
      threads_.emplace_back([this] { work(); });
      pthread_setname_np(threads_.back().native_handle(), "atlas-cpu");
    }
  } catch (...) {
    stop();
    throw;
  }
}

WorkerPool::~WorkerPool() { stop(); }

void WorkerPool::stop() {
  stop_.store(true, std::memory_order_relaxed);
  wake_.fetch_add(1, std::memory_order_release);
  wake_.notify_all();
  for (auto& thread : threads_) thread.join();
}

bool WorkerPool::run(std::int64_t num_tiles, const std::function<void(std::int64_t)>& tile) {
  num_tiles_ = num_tiles;
  tile_ = &tile;
  next_tile_.store(0, std::memory_order_relaxed);
  threw_.store(false, std::memory_order_relaxed);
  if (threads_.empty() || num_tiles <= 1) {
    take_tiles();
    return !threw_.load(std::memory_order_relaxed);
  }
  entered_.store(kOpen, std::memory_order_release);
  wake_.fetch_add(1, std::memory_order_release);
  wake_.notify_all();
  take_tiles();
  auto inside = entered_.fetch_and(~kOpen, std::memory_order_acquire) & ~kOpen;
  for (int spins = 0; inside != 0; inside = entered_.load(std::memory_order_acquire)) {
    if (++spins < kSpins) {
      relax();
    } else {
      entered_.wait(inside, std::memory_order_acquire);
    }
  }
  return !threw_.load(std::memory_order_relaxed);
}

void WorkerPool::work() {
  lower_priority();
  std::uint32_t seen = 0;
  while (true) {
    for (int spins = 0; spins < kSpins && wake_.load(std::memory_order_relaxed) == seen; ++spins) relax();
    wake_.wait(seen, std::memory_order_acquire);
    seen = wake_.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_relaxed)) return;
    if (!enter()) continue;
    take_tiles();
    leave();
  }
}

bool WorkerPool::enter() {
  auto entered = entered_.load(std::memory_order_relaxed);
  while ((entered & kOpen) != 0) {
    if (entered_.compare_exchange_weak(entered, entered + 1, std::memory_order_acquire)) return true;
  }
  return false;
}

void WorkerPool::leave() {
  if (entered_.fetch_sub(1, std::memory_order_release) == 1)
    entered_.notify_one();  // closed, and this was the last one inside
}

void WorkerPool::take_tiles() noexcept {
  try {
    for (auto i = next_tile_.fetch_add(1, std::memory_order_relaxed); i < num_tiles_;
         i = next_tile_.fetch_add(1, std::memory_order_relaxed)) {
      (*tile_)(i);
    }
  } catch (...) {
    threw_.store(true, std::memory_order_relaxed);
    next_tile_.store(num_tiles_, std::memory_order_relaxed);
  }
}

}  // namespace gpu
