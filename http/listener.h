#pragma once

#include <memory>
#include <string>

#include "http/connection_limits.h"
#include "http/exchange.h"
#include "http/io_loop.h"
#include "model/errors.h"

namespace http {

struct ListenOptions {
  std::string host = "127.0.0.1";  ///< an IPv4 or IPv6 address, or "localhost"
  int port = 0;                    ///< 0: one that is free
  std::size_t max_connections = 1024;
  ConnectionLimits limits;
};

/// The listening port and its connections. Made, stopped and destroyed by main; destroyed only after its loop
/// was stopped.
class Listener {
 public:
  /// Takes the port. Clients may connect from now on, and are answered after `start`.
  static model::Result<std::unique_ptr<Listener>, model::LoadError> bind(IoLoop& loop,
                                                                         const ListenOptions& options);
  ~Listener();

  int port() const;
  std::string url() const;  ///< http://HOST:PORT
  void start(Service service);

  /// Takes no further connection; idle ones close now, the others after their answer.
  void stop();
  std::size_t num_connections() const;
  /// Connections with an answer under way: asked for, or not yet wholly handed to the socket. Any thread.
  std::size_t num_answering() const;

  struct Impl;
  explicit Listener(std::shared_ptr<Impl> impl);

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace http
