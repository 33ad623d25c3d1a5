#include "http/listener.h"

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <unordered_set>

#include "http/connection.h"
#include "http/io_loop_impl.h"
#include "http/openai/error_body.h"

namespace http {

namespace asio = boost::asio;
using asio::ip::tcp;
using Error = boost::system::error_code;

struct Listener::Impl : std::enable_shared_from_this<Listener::Impl> {
  Impl(IoLoop::Impl& loop, const ListenOptions& wanted)
      : io(loop.context),
        acceptor(loop.context),
        retry(loop.context),
        options(wanted),
        shared(std::make_shared<ConnectionContext>(loop.worker, loop.wakes, Service(), wanted.limits)) {}

  Error open(const tcp::endpoint& endpoint);
  void accept();
  void on_accepted(const Error& error, tcp::socket socket);
  std::shared_ptr<Connection> longest_idle() const;
  void refuse(tcp::socket socket);
  void stop();

  asio::io_context& io;
  tcp::acceptor acceptor;
  asio::steady_timer retry;
  ListenOptions options;
  std::shared_ptr<ConnectionContext> shared;
  std::unordered_set<std::shared_ptr<Connection>> connections;  // I/O thread only
  std::atomic<std::size_t> num_connections{0};
  int port = 0;
};

Error Listener::Impl::open(const tcp::endpoint& endpoint) {
  Error error;
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (!error) port = acceptor.local_endpoint(error).port();
  return error;
}

void Listener::Impl::accept() {
  acceptor.async_accept([self = shared_from_this()](const Error& error, tcp::socket socket) {
    self->on_accepted(error, std::move(socket));
  });
}

void Listener::Impl::on_accepted(const Error& error, tcp::socket socket) {
  if (error == asio::error::operation_aborted || !acceptor.is_open()) return;
  if (error) {  // out of descriptors, or a client that left already: try again shortly rather than spin
    retry.expires_after(std::chrono::milliseconds(50));
    retry.async_wait([self = shared_from_this()](const Error& cancelled) {
      if (!cancelled) self->accept();
    });
    return;
  }
  if (connections.size() >= options.max_connections) {
    const auto idle = longest_idle();
    if (!idle) {
      refuse(std::move(socket));
      return accept();
    }
    idle->give_way();
  }
  Error ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::send_buffer_size(options.limits.send_buffer_bytes), ignored);
  auto connection = std::make_shared<Connection>(std::move(socket), shared);
  connections.insert(connection);
  num_connections = connections.size();
  connection->on_closed([weak = weak_from_this(), closed = std::weak_ptr(connection)] {
    const auto self = weak.lock();
    if (!self) return;
    self->connections.erase(closed.lock());
    self->num_connections = self->connections.size();
  });
  connection->start();
  accept();
}

/// Connections that are held and not used must not keep out a probe. One whose request is on its way stays.
std::shared_ptr<Connection> Listener::Impl::longest_idle() const {
  std::shared_ptr<Connection> longest;
  for (const auto& connection : connections) {
    const auto since = connection->idle_since();
    if (since && (!longest || since < longest->idle_since()) && !connection->has_unread())
      longest = connection;
  }
  return longest;
}

/// Says why in one write that a fresh socket always takes, and closes.
void Listener::Impl::refuse(tcp::socket socket) {
  const Response response = openai::error_response(
      {503, "All " + std::to_string(options.max_connections) + " connections are in use (--max-connections).",
       "server_error", "", "overloaded"});
  const std::string bytes =
      response_head(response, "", Framing::content_length, Persistence::close) + response.body;
  Error ignored;
  socket.non_blocking(true, ignored);
  asio::write(socket, asio::buffer(bytes), ignored);
  socket.shutdown(tcp::socket::shutdown_send, ignored);
}

void Listener::Impl::stop() {
  Error ignored;
  acceptor.close(ignored);
  retry.cancel();
  for (const auto& connection : connections) connection->wind_down();
}

Listener::Listener(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
Listener::~Listener() = default;

model::Result<std::unique_ptr<Listener>, model::LoadError> Listener::bind(IoLoop& loop,
                                                                          const ListenOptions& options) {
  Error error;
  const auto address =
      asio::ip::make_address(options.host == "localhost" ? "127.0.0.1" : options.host, error);
  if (error) return model::LoadError{{"--host " + options.host + ": not an IPv4 or IPv6 address"}};
  auto impl = std::make_shared<Impl>(loop.impl(), options);
  error = impl->open({address, static_cast<std::uint16_t>(options.port)});
  if (error) {
    const bool taken = error == asio::error::address_in_use;
    return model::LoadError{{"cannot listen on " + options.host + " port " + std::to_string(options.port) +
                             ": " + (taken ? "the port is in use" : error.message())}};
  }
  return std::make_unique<Listener>(std::move(impl));
}

int Listener::port() const { return impl_->port; }

std::string Listener::url() const {
  const std::string& host = impl_->options.host;
  const bool v6 = host.find(':') != std::string::npos;
  return "http://" + (v6 ? "[" + host + "]" : host) + ":" + std::to_string(impl_->port);
}

void Listener::start(Service service) {
  asio::post(impl_->io, [impl = impl_, service = std::move(service)]() mutable {
    impl->shared->service = std::move(service);
    impl->accept();
  });
}

void Listener::stop() {
  asio::post(impl_->io, [impl = impl_] { impl->stop(); });
}

std::size_t Listener::num_connections() const { return impl_->num_connections; }

std::size_t Listener::num_answering() const { return impl_->shared->num_answering; }

}  // namespace http
