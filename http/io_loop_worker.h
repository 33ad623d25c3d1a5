#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace http {

/// One thread beside the I/O thread, for what would keep probes waiting there. Runs one job after the other,
/// in the order in which they came.
class Worker {
 public:
  using Job = std::function<void()>;

  Worker() = default;
  ~Worker() { stop(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void start();
  /// Returns once the running job has ended; those that wait are not begun.
  void stop();

  /// The caller owns the job: dropped before its turn, it is not run and holds nothing while it waits. What
  /// a job holds is freed when it has run. Any thread.
  void post(std::weak_ptr<Job> job);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::weak_ptr<Job>> jobs_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace http
