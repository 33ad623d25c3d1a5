#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "http/exchange.h"

namespace http {

/// The meeting point of the threads that answer and the one that writes. Answers collect here under a
/// lock; `wake` is called once for all that came since the last `take`, so a burst of tokens costs one post
/// and one write.
class ConnectionExchange final : public Exchange {
 public:
  explicit ConnectionExchange(std::function<void()> wake) : wake_(std::move(wake)) {}

  void respond(Response response) override;
  void open_stream(Response head) override;
  void send(std::string_view bytes) override;
  void close_stream() override;
  void watch(Flow flow) override;

  /// What is new. I/O thread only, as is all that follows.
  struct News {
    std::string bytes;
    bool ended = false;
    std::optional<Response> response;  ///< whole, or …
    std::optional<Response> head;      ///< … the head of a stream
  };
  /// Into `news`, whose buffer is kept in exchange: a stream's bytes go through two buffers, whatever its
  /// length.
  void take(News& news);
  /// The I/O thread was woken and cannot take anything yet: what comes from now on wakes it again, so that it
  /// sees how much waits.
  std::size_t waiting_bytes();
  bool ended() const;

  // What the I/O thread tells whoever watches, now or later.
  void abandon();  ///< the client left: what is answered from now on goes nowhere
  void pause();
  void resume();

 private:
  enum class State { open, streaming, ended };
  void wake(std::unique_lock<std::mutex> lock);

  mutable std::mutex mutex_;  // what a token touches lies together
  State state_ = State::open;
  bool woken_ = false;
  std::function<void()> wake_;
  News news_;

  // Held while the watcher is told, so that what it hears comes in order. Never taken under the other lock.
  std::mutex flow_mutex_;
  Flow flow_;
  bool gone_ = false;
  bool paused_ = false;
};

}  // namespace http
