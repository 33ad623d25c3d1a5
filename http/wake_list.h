#pragma once

#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace http {

class Connection;

/// Connections that have something new to write, handed to the I/O thread together: the tokens of a step cost
/// it one post, not one a stream. First come first served, which keeps every stream's place in a step. Holds
/// at most one word a connection and turn; lives in the loop.
class WakeList {
 public:
  explicit WakeList(boost::asio::io_context& context) : context_(context) {}

  /// `answer`: the number of the connection's answer that has news. Any thread.
  void add(const std::weak_ptr<Connection>& connection, std::uint64_t answer);

 private:
  struct Word {
    std::weak_ptr<Connection> connection;
    std::uint64_t answer = 0;
  };
  void run_turn();

  boost::asio::io_context& context_;
  std::mutex mutex_;
  std::vector<Word> waiting_;
  bool posted_ = false;  // a turn is on its way or under way

  // I/O thread only.
  std::vector<Word> taken_;
  std::size_t next_ = 0;
};

}  // namespace http
