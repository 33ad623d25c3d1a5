#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <string>
#include <string_view>

namespace http {

/// A blocking client over a plain socket, so that a test decides every byte. Each wait is bounded by 5 s.
class Client {
 public:
  explicit Client(int port, int receive_buffer = 0) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    const timeval limit{5, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ::setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (receive_buffer > 0)
      ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  ~Client() { leave(); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool connected() const { return connected_; }
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  void leave() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }
  void shutdown_send() { ::shutdown(socket_, SHUT_WR); }

  /// More bytes into the buffer; false at the end of the connection or after 5 s.
  bool fill() {
    char bytes[4096];
    const auto size = ::recv(socket_, bytes, sizeof bytes, 0);
    if (size > 0) buffer_.append(bytes, static_cast<std::size_t>(size));
    closed_ = size == 0 || (size < 0 && errno == ECONNRESET);
    return size > 0;
  }
  /// Up to and with `mark`; what came so far when it does not come.
  std::string until(std::string_view mark) {
    std::size_t at = 0;
    while ((at = buffer_.find(mark)) == std::string::npos) {
      if (!fill()) return std::exchange(buffer_, "");
    }
    std::string taken = buffer_.substr(0, at + mark.size());
    buffer_.erase(0, taken.size());
    return taken;
  }
  bool closed_by_server() {
    while (fill()) {
    }
    return closed_;
  }

  struct Answer {
    int status = 0;
    std::string head;
    std::string body;
    bool has(std::string_view text) const { return head.find(text) != std::string::npos; }
  };
  Answer read() {
    Answer answer;
    answer.head = until("\r\n\r\n");
    if (answer.head.size() > 12) answer.status = std::atoi(answer.head.c_str() + 9);
    const auto length = answer.head.find("Content-Length: ");
    if (length != std::string::npos) {
      const auto size = static_cast<std::size_t>(std::atol(answer.head.c_str() + length + 16));
      while (buffer_.size() < size && fill()) {
      }
      answer.body = buffer_.substr(0, size);
      buffer_.erase(0, answer.body.size());
    } else if (answer.has("Transfer-Encoding: chunked")) {
      for (;;) {
        const std::string line = until("\r\n");
        const auto size = static_cast<std::size_t>(std::strtoul(line.c_str(), nullptr, 16));
        if (size == 0) {
          until("\r\n");
          break;
        }
        while (buffer_.size() < size + 2 && fill()) {
        }
        answer.body += buffer_.substr(0, size);
        buffer_.erase(0, size + 2);
      }
    }
    return answer;
  }
  Answer get(const std::string& path) {
    send("GET " + path + " HTTP/1.1\r\nHost: test\r\n\r\n");
    return read();
  }
  void post(const std::string& path, const std::string& body, const std::string& more = "") {
    send("POST " + path + " HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n" + more +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  }

 private:
  int socket_;
  bool connected_ = false;
  bool closed_ = false;
  std::string buffer_;
};

}  // namespace http
