#include "http/io_loop_worker.h"

#include <utility>

namespace http {

void Worker::start() {
  thread_ = std::thread([this] { run(); });
}

void Worker::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Worker::post(std::weak_ptr<Job> job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  changed_.notify_one();
}

void Worker::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    if (stopping_) return;
    const std::weak_ptr<Job> next = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    if (const auto job = next.lock()) std::exchange(*job, nullptr)();
    lock.lock();
  }
}

}  // namespace http
