#pragma once

#include <array>
#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include "http/connection_exchange.h"
#include "http/connection_limits.h"
#include "http/io_loop_worker.h"
#include "http/wake_list.h"

namespace http {

/// What all connections of a listener share. Used by the I/O thread alone, except the service.
struct ConnectionContext {
  Worker& worker;
  WakeList& wakes;
  Service service;
  ConnectionLimits limits;
  std::mt19937_64 random{std::random_device{}()};
  std::atomic<std::size_t> num_answering{0};  ///< read by any thread
};

/// Counts a connection among those that have an answer under way, for as long as it lives.
class AnswerUnderWay {
 public:
  explicit AnswerUnderWay(std::atomic<std::size_t>& number) : number_(number) { ++number_; }
  ~AnswerUnderWay() { --number_; }
  AnswerUnderWay(const AnswerUnderWay&) = delete;
  AnswerUnderWay& operator=(const AnswerUnderWay&) = delete;

 private:
  std::atomic<std::size_t>& number_;
};

/// One client. Lives on the I/O thread, owned by the operations that it has outstanding and by the listener's
/// list. Reads a request, hands it to the service, writes the answer, and so on, one at a time and in order.
/// One read is outstanding nearly always: while a request is answered it is what notices that the client
/// left, and what it brings of the next request is kept.
///
///   idle → head → body → answering → idle        a keep-alive connection
///            └──────┴─────────┴────→ closing → closed   a refusal, `Connection: close`, the end of the
///            process
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  using Clock = std::chrono::steady_clock;
  Connection(Socket socket, std::shared_ptr<ConnectionContext> context);

  void start();
  /// The process ends: an idle connection closes now, another after its answer. Any thread.
  void wind_down();
  /// Since when it waits for the first byte of a request; null while it is at one. I/O thread.
  std::optional<Clock::time_point> idle_since() const;
  /// Whether a byte has come that was not yet read. I/O thread.
  bool has_unread() const;
  /// An idle connection makes room for another. I/O thread.
  void give_way() { close(); }
  /// Its answer of that number has something new. I/O thread.
  void wake(std::uint64_t answer);
  /// Called once, on the I/O thread.
  void on_closed(std::function<void()> callback) { on_closed_ = std::move(callback); }

 private:
  enum class State { idle, head, body, answering, closing, closed };
  enum class AfterWrite { read_on, answer_on, linger };
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  using Error = boost::system::error_code;

  void fill();
  void on_filled(const Error& error, std::size_t size);
  void next_request();
  void parse();
  std::size_t parse_received(Error& error);
  bool accept_head();
  void dispatch();
  void serve(std::shared_ptr<const Request> request);
  void refuse(int status, const std::string& message, const std::string& code);
  void refuse(const Error& error);

  void answer();
  void write_answer(ConnectionExchange::News& news);
  bool write_at_once();
  void balance();
  void finish_answer();
  void client_left();
  void write(std::string bytes, AfterWrite then, std::string more = "");
  void write_rest();
  void on_written(const Error& error, std::size_t size);

  void expire_after(std::chrono::milliseconds time);
  void never_expire();
  void wait_for_deadline();
  void on_deadline();
  void linger();
  void close();

  Socket socket_;
  std::shared_ptr<ConnectionContext> context_;
  std::function<void()> on_closed_;
  State state_ = State::idle;
  Clock::time_point idle_since_ = Clock::now();

  bool reading_ = false;
  bool eof_ = false;
  std::array<char, 16 * 1024> chunk_;
  boost::beast::flat_buffer received_;
  std::optional<Parser> parser_;
  Clock::time_point body_began_;

  std::shared_ptr<ConnectionExchange> exchange_;
  std::optional<AnswerUnderWay> under_way_;
  std::uint64_t answer_ = 0;          // its number
  ConnectionExchange::News news_;     // kept for its buffer
  std::shared_ptr<Worker::Job> job_;  // serves a large body; dropped with the exchange
  bool head_only_ = false;            // HEAD
  bool http_1_0_ = false;
  bool keep_alive_ = false;
  bool streaming_ = false;
  bool chunked_ = false;
  bool last_write_ = false;  // what is being written ends the answer
  bool paused_ = false;
  bool winding_down_ = false;
  std::string id_;

  bool writing_ = false;
  std::string out_;
  std::string more_;  // is written when `out_` is
  std::size_t written_ = 0;
  AfterWrite then_ = AfterWrite::read_on;

  boost::asio::steady_timer timer_;
  Clock::time_point deadline_ = Clock::time_point::max();
  Clock::time_point timer_at_ = Clock::time_point::max();
};

}  // namespace http
