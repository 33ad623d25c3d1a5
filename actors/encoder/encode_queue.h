#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

namespace actors {

/// How many texts may be at the encoder, waiting or in work: its mailbox has no bound of its own. Shared by
/// whoever sends it one; any thread.
class EncodeQueue : public std::enable_shared_from_this<EncodeQueue> {
 public:
  explicit EncodeQueue(std::int32_t most) : most_(most) {}

  /// A place in it, given back when its last copy goes.
  using Place = std::shared_ptr<const void>;
  std::optional<Place> enter() {
    if (taken_.fetch_add(1) >= most_) {
      taken_.fetch_sub(1);
      return std::nullopt;
    }
    return Place(nullptr, [queue = shared_from_this()](std::nullptr_t) { queue->taken_.fetch_sub(1); });
  }
  std::int32_t taken() const { return taken_; }

 private:
  const std::int32_t most_;
  std::atomic<std::int32_t> taken_{0};
};

/// Whether anybody still waits for a text: set once, by whoever learns that its client left.
using Unwanted = std::shared_ptr<std::atomic<bool>>;
inline Unwanted make_unwanted() { return std::make_shared<std::atomic<bool>>(false); }

}  // namespace actors
