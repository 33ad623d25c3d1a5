#include "http/connection.h"

#include <spdlog/spdlog.h>
#include <boost/asio/buffer.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <utility>

#include "http/openai/error_body.h"

namespace http {

namespace asio = boost::asio;
namespace beast_http = boost::beast::http;

namespace {

/// Bytes of later requests that are kept while one is answered. Beyond them reading stops until the answer is
/// done.
constexpr std::size_t kMaxPipelinedBytes = 64 * 1024;

/// A body of up to so many bytes is copied behind its head and leaves with it in one write. Copying tens of
/// MiB would keep other clients waiting.
constexpr std::size_t kMaxCopiedBytes = 64 * 1024;

void append_chunk(std::string& out, std::string_view bytes) {
  char size[24];
  const int length = std::snprintf(size, sizeof size, "%zx\r\n", bytes.size());
  out.append(size, static_cast<std::size_t>(length));
  out += bytes;
  out += "\r\n";
}

/// An exception is this request's alone: the threads that come here serve all of them.
void call_service(ConnectionContext& context, std::shared_ptr<const Request> request,
                  std::shared_ptr<Exchange> exchange) {
  const std::string id = request->id;
  try {
    context.service(std::move(request), exchange);
  } catch (const std::exception& error) {
    spdlog::error("request {}: {}", id, error.what());
    exchange->respond(openai::error_response(openai::engine_failure()));
  }
}

}  // namespace

Connection::Connection(Socket socket, std::shared_ptr<ConnectionContext> context)
    : socket_(std::move(socket)), context_(std::move(context)), timer_(socket_.get_executor()) {}

void Connection::start() {
  asio::dispatch(socket_.get_executor(), [self = shared_from_this()] {
    Error ignored;
    self->socket_.non_blocking(true, ignored);
    self->expire_after(self->context_->limits.header_timeout);
    self->fill();
  });
}

void Connection::wind_down() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    self->winding_down_ = true;
    if (self->state_ == State::idle) self->close();
  });
}

std::optional<Connection::Clock::time_point> Connection::idle_since() const {
  return state_ == State::idle ? std::optional(idle_since_) : std::nullopt;
}

bool Connection::has_unread() const {
  Error ignored;
  return socket_.available(ignored) > 0;
}

// Reading
// ------------------------------------------------------------------------------------------------------------

void Connection::fill() {
  if (reading_ || eof_ || state_ == State::closed) return;
  if (state_ == State::answering && received_.size() >= kMaxPipelinedBytes) return;
  reading_ = true;
  socket_.async_read_some(
      asio::buffer(chunk_),
      [self = shared_from_this()](const Error& error, std::size_t size) { self->on_filled(error, size); });
}

void Connection::on_filled(const Error& error, std::size_t size) {
  reading_ = false;
  if (state_ == State::closed) return;
  if (state_ == State::closing) {  // what comes after a refusal is read away, so that the refusal is not lost
                                   // to a reset
    if (error) return close();
    return fill();
  }
  if (size > 0) {
    const auto room = received_.prepare(size);
    asio::buffer_copy(room, asio::buffer(chunk_, size));
    received_.commit(size);
  }
  if (error) {
    eof_ = true;
    const bool cut = error != asio::error::eof;
    if (state_ != State::answering) return close();
    if (cut || !exchange_->ended()) client_left();
    return;
  }
  if (state_ == State::answering) return fill();
  if (state_ == State::idle) return next_request();
  parse();
}

/// Begins with what has been received, or waits for more.
void Connection::next_request() {
  if (received_.size() == 0) {
    state_ = State::idle;
    idle_since_ = Clock::now();
    if (eof_ || winding_down_) return close();
    expire_after(context_->limits.idle_timeout);
    return fill();
  }
  state_ = State::head;
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(context_->limits.max_head_bytes));
  parser_->body_limit(context_->limits.max_body_bytes);
  expire_after(context_->limits.header_timeout);
  parse();
}

void Connection::parse() {
  while (state_ == State::head || state_ == State::body) {
    Error error;
    const std::size_t used = parse_received(error);
    const auto taken = received_.cdata();
    const bool head_ends = !error && state_ == State::head && parser_->is_header_done();
    const bool plain = !head_ends || is_plain_head({static_cast<const char*>(taken.data()), used});
    received_.consume(used);
    if (!plain) return refuse(400, "The request is not valid HTTP.", "");
    // Within a body the parser may take nothing and still find no fault: it waits for more then, too.
    const bool starved =
        !error && used == 0 && !parser_->is_done() && !(state_ == State::head && parser_->is_header_done());
    if (error == beast_http::error::need_more || starved) {
      if (eof_) return close();
      // A body's bytes leave the buffer as they come; what stays is a chunk's extension or the trailer.
      if (state_ == State::body && received_.size() > context_->limits.max_head_bytes)
        return refuse(beast_http::error::header_limit);
      if (state_ == State::body) {
        const auto& limits = context_->limits;
        const auto earned =
            std::chrono::milliseconds(1000 * parser_->get().body().size() / limits.min_body_bytes_per_second);
        const auto left = body_began_ + limits.header_timeout + earned - Clock::now();
        expire_after(std::max(std::chrono::duration_cast<std::chrono::milliseconds>(left),
                              std::chrono::milliseconds(0)));
      }
      return fill();
    }
    if (error) return refuse(error);
    if (state_ == State::head && parser_->is_header_done() && !accept_head()) return;
    if (parser_->is_done()) return dispatch();
  }
}

/// The parser bounds the head itself; of a trailer it stores what it is given, and throws where a field does
/// not fit its own format.
std::size_t Connection::parse_received(Error& error) {
  try {
    return parser_->put(received_.cdata(), error);
  } catch (const std::length_error&) {
    error = beast_http::error::header_limit;
    return 0;
  }
}

/// The head is complete: refuse what must not be read further, permit what waits for permission. False:
/// parsing stops here.
bool Connection::accept_head() {
  const auto& message = parser_->get();
  http_1_0_ = message.version() < 11;
  keep_alive_ = message.keep_alive();
  std::size_t head_bytes = message.target().size();
  for (const auto& field : message) head_bytes += field.name_string().size() + field.value().size() + 4;
  if (head_bytes > context_->limits.max_head_bytes) {
    refuse(beast_http::error::header_limit);
    return false;
  }
  // Two readers that disagree about where a body ends are how requests are smuggled past a proxy.
  const auto lengths = message.count(beast_http::field::content_length);
  const auto encodings = message.count(beast_http::field::transfer_encoding);
  const bool list =
      message[beast_http::field::content_length].find_first_not_of("0123456789") != std::string_view::npos;
  if (lengths > 1 || list || encodings > 1 || (lengths > 0 && encodings > 0) ||
      (encodings > 0 && http_1_0_)) {
    refuse(400, "The request gives its length in more than one way.", "");
    return false;
  }
  if (encodings > 0 && !same_ignoring_case(message[beast_http::field::transfer_encoding], "chunked")) {
    refuse(501, "The only transfer encoding served is chunked.", "");
    return false;
  }
  if (message.count(beast_http::field::content_encoding) > 0 &&
      !same_ignoring_case(message[beast_http::field::content_encoding], "identity")) {
    refuse(415, "The body's encoding is not served: send it without Content-Encoding.", "");
    return false;
  }
  if (message.count(beast_http::field::host) != 1 && !http_1_0_) {
    refuse(400, "The request needs exactly one Host field.", "");
    return false;
  }
  state_ = State::body;
  body_began_ = Clock::now();
  parser_->eager(true);
  const auto expect = message[beast_http::field::expect];
  if (expect.empty() || http_1_0_) return true;
  if (!same_ignoring_case(expect, "100-continue")) {
    refuse(417, "The only expectation met is 100-continue.", "");
    return false;
  }
  if (parser_->is_done() || received_.size() > 0) return true;
  write("HTTP/1.1 100 Continue\r\n\r\n", AfterWrite::read_on);
  return false;
}

void Connection::refuse(const Error& error) {
  if (error == beast_http::error::header_limit && state_ == State::head && parser_->get().target().empty()) {
    return refuse(
        414,
        "The request's target is longer than " + std::to_string(context_->limits.max_head_bytes) + " bytes.",
        "");
  }
  if (error == beast_http::error::header_limit) {
    return refuse(431,
                  "The request's head, a chunk's extension or the trailer is longer than " +
                      std::to_string(context_->limits.max_head_bytes) + " bytes.",
                  "");
  }
  if (error == beast_http::error::body_limit) {
    return refuse(413,
                  "The request body is larger than " + std::to_string(context_->limits.max_body_bytes) +
                      " bytes (--max-body-bytes).",
                  "request_too_large");
  }
  if (error == beast_http::error::bad_version)
    return refuse(505, "Only HTTP/1.0 and HTTP/1.1 are served.", "");
  refuse(400, "The request is not valid HTTP.", "");
}

/// Answers a request that cannot be read to its end, hence the last on this connection.
void Connection::refuse(int status, const std::string& message, const std::string& code) {
  if (writing_) return close();  // the permission to go on is still being written
  state_ = State::closing;
  keep_alive_ = false;
  const Response response = openai::error_response({status, message, "invalid_request_error", "", code});
  write(response_head(response, "", Framing::content_length, Persistence::close) + response.body,
        AfterWrite::linger);
}

void Connection::dispatch() {
  state_ = State::answering;
  under_way_.emplace(context_->num_answering);
  never_expire();
  auto message = parser_->release();
  parser_.reset();
  auto request = std::make_shared<Request>();
  request->method = std::string(message.method_string());
  request->path = path_of_target(message.target());
  for (const auto& field : message)
    request->headers.push_back({std::string(field.name_string()), std::string(field.value())});
  request->body = std::move(message.body());
  request->id = request_id(request->header("x-request-id"), context_->random(), context_->random());
  id_ = request->id;
  head_only_ = request->method == "HEAD";
  streaming_ = chunked_ = last_write_ = paused_ = false;
  if (winding_down_) keep_alive_ = false;

  exchange_ =
      std::make_shared<ConnectionExchange>([connection = weak_from_this(), number = ++answer_,
                                            &wakes = context_->wakes] { wakes.add(connection, number); });
  const auto exchange = exchange_;
  serve(std::move(request));
  if (eof_ && !exchange->ended()) return client_left();
  fill();
}

/// A large body waits for the worker, which owns nothing of it: when the client leaves, so does the body.
void Connection::serve(std::shared_ptr<const Request> request) {
  if (request->body.size() <= context_->limits.max_inline_body_bytes)
    return call_service(*context_, std::move(request), exchange_);
  job_ = std::make_shared<Worker::Job>(
      [context = context_, request = std::move(request), exchange = exchange_]() mutable {
        if (!exchange->ended()) call_service(*context, std::move(request), std::move(exchange));
      });
  context_->worker.post(job_);
}

// Answering
// ----------------------------------------------------------------------------------------------------------

void Connection::wake(std::uint64_t answer) {
  if (answer != answer_ || !exchange_ || state_ != State::answering) return;
  if (writing_) return balance();
  this->answer();
}

void Connection::answer() {
  exchange_->take(news_);
  write_answer(news_);
  last_write_ = news_.ended;
  if (!out_.empty() && !write_at_once()) {
    writing_ = true;
    then_ = AfterWrite::answer_on;
    return write_rest();
  }
  if (last_write_) return finish_answer();
  if (paused_) balance();
  if (streaming_) expire_after(context_->limits.ping_interval);
}

/// Into `out_`, and what is too long to be copied into `more_`.
void Connection::write_answer(ConnectionExchange::News& news) {
  out_.clear();
  more_.clear();
  written_ = 0;
  if (winding_down_) keep_alive_ = false;
  const Persistence persistence = keep_alive_ ? Persistence::keep_alive : Persistence::close;
  if (news.response) {
    out_ = response_head(*news.response, id_, Framing::content_length, persistence);
    auto& body = news.response->body;
    if (!head_only_ && body.size() > kMaxCopiedBytes) {
      more_ = std::move(body);
    } else if (!head_only_) {
      out_ += body;
    }
  }
  if (news.head) {
    streaming_ = true;
    chunked_ = !http_1_0_;
    if (http_1_0_) keep_alive_ = false;
    out_ = response_head(*news.head, id_, chunked_ ? Framing::chunked : Framing::until_close,
                         keep_alive_ ? Persistence::keep_alive : Persistence::close);
  }
  if (!news.bytes.empty()) {
    if (chunked_) {
      append_chunk(out_, news.bytes);
    } else {
      out_ += news.bytes;
    }
  }
  if (news.ended && streaming_ && chunked_) out_ += "0\r\n\r\n";
}

/// A socket that has room takes everything in one call, with no operation to wait for. False: some is left,
/// or there was an error, which the next write reports.
bool Connection::write_at_once() {
  Error error;
  const auto size = socket_.write_some(asio::buffer(out_), error);
  if (!error) written_ = size;
  return written_ == out_.size() && more_.empty();
}

/// A slow reader's sequences pause while more waits for it than a stream may hold.
void Connection::balance() {
  const std::size_t waiting = exchange_->waiting_bytes() + (writing_ ? out_.size() - written_ : 0);
  const auto& limits = context_->limits;
  if (!paused_ && waiting > limits.max_stream_bytes) {
    paused_ = true;
    exchange_->pause();
  } else if (paused_ && waiting <= limits.resume_stream_bytes) {
    paused_ = false;
    exchange_->resume();
  }
}

void Connection::finish_answer() {
  exchange_.reset();
  under_way_.reset();
  job_.reset();
  out_ = std::string();  // an idle connection keeps no answer's memory
  news_ = {};
  if (!keep_alive_) return linger();
  next_request();
}

void Connection::client_left() {
  job_.reset();
  if (const auto exchange = std::exchange(exchange_, nullptr)) exchange->abandon();
  close();
}

void Connection::write(std::string bytes, AfterWrite then, std::string more) {
  writing_ = true;
  out_ = std::move(bytes);
  more_ = std::move(more);
  written_ = 0;
  then_ = then;
  write_rest();
}

void Connection::write_rest() {
  if (written_ == out_.size() && !more_.empty()) {
    out_ = std::exchange(more_, std::string());
    written_ = 0;
  }
  expire_after(context_->limits.write_timeout);
  socket_.async_write_some(
      asio::buffer(out_.data() + written_, out_.size() - written_),
      [self = shared_from_this()](const Error& error, std::size_t size) { self->on_written(error, size); });
}

void Connection::on_written(const Error& error, std::size_t size) {
  if (state_ == State::closed) return;
  if (error) return client_left();
  written_ += size;
  if (written_ < out_.size() || !more_.empty()) {
    if (exchange_) balance();
    return write_rest();
  }
  writing_ = false;
  never_expire();
  switch (then_) {
    case AfterWrite::read_on:
      return state_ == State::answering ? answer() : parse();  // the body may have come meanwhile
    case AfterWrite::linger:
      return linger();
    case AfterWrite::answer_on:
      balance();
      if (last_write_) return finish_answer();
      return answer();
  }
}

// Time
// ---------------------------------------------------------------------------------------------------------------

void Connection::never_expire() { deadline_ = Clock::time_point::max(); }

/// Setting a deadline costs nothing while an earlier timer runs: that one looks at the deadline when it
/// fires.
void Connection::expire_after(std::chrono::milliseconds time) {
  deadline_ = Clock::now() + time;
  if (deadline_ < timer_at_) wait_for_deadline();
}

void Connection::wait_for_deadline() {
  timer_at_ = deadline_;
  timer_.expires_at(timer_at_);
  timer_.async_wait([weak = weak_from_this(), at = timer_at_](const Error& error) {
    const auto self = weak.lock();
    if (!self || error || at != self->timer_at_ || self->state_ == State::closed) return;
    self->timer_at_ = Clock::time_point::max();
    if (self->deadline_ == Clock::time_point::max()) return;
    if (self->deadline_ > Clock::now()) return self->wait_for_deadline();
    self->on_deadline();
  });
}

void Connection::on_deadline() {
  never_expire();
  if (writing_) return client_left();
  switch (state_) {
    case State::head:
    case State::body:
      return refuse(408, "The request did not arrive in time.", "request_timeout");
    case State::answering:
      return write(chunked_ ? "8\r\n: ping\n\n\r\n" : ": ping\n\n", AfterWrite::answer_on);
    case State::idle:
    case State::closing:
    case State::closed:
      return close();
  }
}

void Connection::linger() {
  state_ = State::closing;
  if (eof_) return close();
  Error ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
  expire_after(context_->limits.linger);
  fill();
}

void Connection::close() {
  if (state_ == State::closed) return;
  state_ = State::closed;
  under_way_.reset();
  Error ignored;
  timer_.cancel();
  socket_.close(ignored);
  if (const auto callback = std::exchange(on_closed_, nullptr)) callback();
}

}  // namespace http
