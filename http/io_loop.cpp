#include "http/io_loop.h"

#include <boost/asio/steady_timer.hpp>
#include <csignal>

#include "http/io_loop_impl.h"

namespace http {
namespace {

using boost::system::error_code;

void run_again(const std::shared_ptr<boost::asio::steady_timer>& timer, std::chrono::milliseconds period,
               std::function<bool()> tick) {
  timer->expires_after(period);
  timer->async_wait([timer, period, tick = std::move(tick)](const error_code& error) mutable {
    if (!error && tick()) run_again(timer, period, std::move(tick));
  });
}

void wait_for_signal(boost::asio::signal_set& signals, std::function<void(int)> handler) {
  signals.async_wait([&signals, handler = std::move(handler)](const error_code& error, int number) mutable {
    if (error) return;
    handler(number);
    wait_for_signal(signals, std::move(handler));
  });
}

}  // namespace

IoLoop::IoLoop() : impl_(std::make_unique<Impl>()) {}
IoLoop::~IoLoop() { stop(); }

void IoLoop::start() {
  impl_->worker.start();
  impl_->thread = std::thread([this] { impl_->context.run(); });
}

void IoLoop::stop() {
  impl_->context.stop();
  if (impl_->thread.joinable()) impl_->thread.join();
  impl_->worker.stop();
}

void IoLoop::every(std::chrono::milliseconds period, std::function<bool()> tick) {
  run_again(std::make_shared<boost::asio::steady_timer>(impl_->context), period, std::move(tick));
}

void IoLoop::on_signal(std::function<void(int)> handler) {
  error_code ignored;
  impl_->signals.add(SIGINT, ignored);
  impl_->signals.add(SIGTERM, ignored);
  wait_for_signal(impl_->signals, std::move(handler));
}

}  // namespace http
