#include "actors/health/fatal_watchdog.h"

#include <utility>

namespace actors {

FatalWatchdog::FatalWatchdog(OnExit on_exit) : on_exit_(std::move(on_exit)), thread_([this] { run(); }) {}

FatalWatchdog::~FatalWatchdog() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void FatalWatchdog::arm(std::chrono::milliseconds within, int code, std::string why) {
  {
    const std::lock_guard lock(mutex_);
    if (armed_ || told_) return;
    armed_ = Armed{std::chrono::steady_clock::now() + within, code, std::move(why)};
  }
  changed_.notify_one();
}

void FatalWatchdog::exit(int code, std::string why) {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(told_, true)) return;
  }
  on_exit_(code, std::move(why));  // outside the lock: main may take its time
}

void FatalWatchdog::run() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return closing_ || armed_; });
  if (closing_) return;
  const auto armed = *armed_;
  changed_.wait_until(lock, armed.at, [&] { return closing_ || told_; });
  const bool silent = closing_ || told_;
  lock.unlock();
  if (!silent) exit(armed.code, armed.why);
}

}  // namespace actors
