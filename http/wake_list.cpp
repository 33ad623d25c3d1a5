#include "http/wake_list.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

#include "http/connection.h"

namespace http {
namespace {

/// Between turns whatever else is ready on the I/O thread has its own: a probe waits for so many writes at
/// most.
constexpr std::size_t kWordsPerTurn = 64;

}  // namespace

void WakeList::add(const std::weak_ptr<Connection>& connection, std::uint64_t answer) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back({connection, answer});
    if (std::exchange(posted_, true)) return;
  }
  boost::asio::post(context_, [this] { run_turn(); });
}

void WakeList::run_turn() {
  if (next_ == taken_.size()) {
    taken_.clear();
    next_ = 0;
    const std::lock_guard lock(mutex_);
    taken_.swap(waiting_);
    posted_ = !taken_.empty();
    if (!posted_) return;
  }
  for (const auto end = std::min(next_ + kWordsPerTurn, taken_.size()); next_ < end; ++next_) {
    const auto word = std::move(taken_[next_]);
    if (const auto connection = word.connection.lock()) connection->wake(word.answer);
  }
  boost::asio::post(context_, [this] { run_turn(); });
}

}  // namespace http
