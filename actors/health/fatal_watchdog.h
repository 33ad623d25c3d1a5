#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace actors {

/// Tells main, once, that the process has to end, and guarantees it: a plain thread that no actor, pool or
/// device can hold up. Owned by the System; any thread may call it.
class FatalWatchdog {
 public:
  using OnExit = std::function<void(int code, std::string why)>;
  explicit FatalWatchdog(OnExit on_exit);
  ~FatalWatchdog();
  FatalWatchdog(const FatalWatchdog&) = delete;
  FatalWatchdog& operator=(const FatalWatchdog&) = delete;

  /// The process ends with `code` at the latest after `within`. The first call counts.
  void arm(std::chrono::milliseconds within, int code, std::string why);
  /// The process ends now. The first call counts.
  void exit(int code, std::string why);

 private:
  void run();
  struct Armed {
    std::chrono::steady_clock::time_point at;
    int code = 0;
    std::string why;
  };

  OnExit on_exit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Armed> armed_;
  bool told_ = false;
  bool closing_ = false;
  std::thread thread_;  // last: it uses everything above
};

}  // namespace actors
