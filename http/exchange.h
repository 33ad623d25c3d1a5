#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "http/message.h"

namespace http {

/// One request's answer on its way to its connection: either `respond` once, or `open_stream`, `send`…,
/// `close_stream`. Every member may be called from any thread and returns at once; calls after the end, or
/// after the client left, do nothing.
class Exchange {
 public:
  virtual ~Exchange() = default;

  virtual void respond(Response response) = 0;
  virtual void open_stream(Response head) = 0;
  /// Whole events only, copied before it returns: what is sent while an earlier write is under way leaves
  /// together with it as one chunk.
  virtual void send(std::string_view bytes) = 0;
  virtual void close_stream() = 0;

  /// What the other end does, told on the I/O thread, or within `watch` when it had happened before.
  /// One at a time; nothing is told after the answer's end. Called under a lock: may answer, must not watch.
  struct Flow {
    std::function<void()> client_gone;
    std::function<void()> pause;  ///< more waits for a slow reader than a stream may hold
    std::function<void()> resume;
  };
  /// Called by a route, before it returns.
  virtual void watch(Flow flow) = 0;
};

/// What a connection does with a complete request. Called on the I/O thread, where it must not
/// block, or, for a large body, on the loop's worker: both at once.
using Service = std::function<void(std::shared_ptr<const Request>, std::shared_ptr<Exchange>)>;

}  // namespace http
