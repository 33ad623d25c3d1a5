#include "http/connection_exchange.h"

#include <utility>

namespace http {
namespace {

void tell(const std::function<void()>& watcher) {
  if (watcher) watcher();
}

}  // namespace

void ConnectionExchange::wake(std::unique_lock<std::mutex> lock) {
  const bool sleeping = !std::exchange(woken_, true);
  lock.unlock();
  if (sleeping) wake_();
}

void ConnectionExchange::respond(Response response) {
  std::unique_lock lock(mutex_);
  if (state_ != State::open) return;
  state_ = State::ended;
  news_.response = std::move(response);
  news_.ended = true;
  wake(std::move(lock));
}

void ConnectionExchange::open_stream(Response head) {
  std::unique_lock lock(mutex_);
  if (state_ != State::open) return;
  state_ = State::streaming;
  news_.head = std::move(head);
  wake(std::move(lock));
}

void ConnectionExchange::send(std::string_view bytes) {
  std::unique_lock lock(mutex_);
  if (state_ != State::streaming || bytes.empty()) return;
  news_.bytes += bytes;
  wake(std::move(lock));
}

void ConnectionExchange::close_stream() {
  std::unique_lock lock(mutex_);
  if (state_ != State::streaming) return;
  state_ = State::ended;
  news_.ended = true;
  wake(std::move(lock));
}

void ConnectionExchange::take(News& news) {
  news.response.reset();
  news.head.reset();
  news.bytes.clear();
  const std::lock_guard lock(mutex_);
  woken_ = false;
  if (news_.response) news.response.swap(news_.response);
  if (news_.head) news.head.swap(news_.head);
  news.bytes.swap(news_.bytes);
  news.ended = news_.ended;
}

std::size_t ConnectionExchange::waiting_bytes() {
  const std::lock_guard lock(mutex_);
  woken_ = false;
  return news_.bytes.size();
}

bool ConnectionExchange::ended() const {
  const std::lock_guard lock(mutex_);
  return state_ == State::ended;
}

void ConnectionExchange::watch(Flow flow) {
  const std::lock_guard lock(flow_mutex_);
  flow_ = std::move(flow);
  if (gone_) return tell(flow_.client_gone);
  if (paused_) tell(flow_.pause);
}

void ConnectionExchange::abandon() {
  {
    const std::lock_guard lock(mutex_);
    if (state_ == State::ended) return;
    state_ = State::ended;
    news_ = News{};
  }
  const std::lock_guard lock(flow_mutex_);
  gone_ = true;
  tell(flow_.client_gone);
}

void ConnectionExchange::pause() {
  const std::lock_guard lock(flow_mutex_);
  paused_ = true;
  tell(flow_.pause);
}

void ConnectionExchange::resume() {
  const std::lock_guard lock(flow_mutex_);
  paused_ = false;
  tell(flow_.resume);
}

}  // namespace http
