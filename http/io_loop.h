#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace http {

/// The one thread that speaks to sockets, what runs on it, and the worker beside it that reads large bodies.
/// Must outlive every Listener and whatever holds an Exchange.
class IoLoop {
 public:
  IoLoop();
  ~IoLoop();
  IoLoop(const IoLoop&) = delete;
  IoLoop& operator=(const IoLoop&) = delete;

  void start();
  void stop();  ///< returns once both threads have ended; nothing runs afterwards

  /// Runs `tick` on the thread again and again until it answers false.
  void every(std::chrono::milliseconds period, std::function<bool()> tick);
  /// SIGINT and SIGTERM, each time they come, on the thread.
  void on_signal(std::function<void(int)> handler);

  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace http
