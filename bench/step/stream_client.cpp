#include "bench/step/stream_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <optional>
#include <string_view>
#include <vector>

namespace bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kToken = R"(content":")";
constexpr std::string_view kNoToken = R"(content":"")";  // the chunk that carries the role
constexpr std::string_view kEnd = "data: [DONE]";

struct Stream {
  int socket = -1;
  std::string rest;  // of an event whose end has not come
  std::int32_t tokens = 0;
  bool done = false;
  std::optional<Clock::time_point> last_token;  // inside the window
};

int connect_to(int port, const std::string& request) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return -1;
  if (::write(socket, request.data(), request.size()) != static_cast<ssize_t>(request.size())) return -1;
  return socket;
}

void take_event(Stream& stream, std::string_view event, Clock::time_point now, StreamMarks& marks) {
  stream.done = stream.done || event.find(kEnd) != event.npos;
  if (event.find(kToken) == event.npos || event.find(kNoToken) != event.npos) return;
  ++stream.tokens;
  marks.tokens.fetch_add(1, std::memory_order_relaxed);
  if (!marks.measuring.load(std::memory_order_acquire)) {
    stream.last_token.reset();
    return;
  }
  if (stream.last_token) {
    const auto place = marks.num_gaps.load(std::memory_order_relaxed);
    if (place < StreamMarks::kMaxGaps) {
      marks.gaps[place] = std::chrono::duration<float>(now - *stream.last_token).count();
      marks.num_gaps.store(place + 1, std::memory_order_release);
    }
  }
  stream.last_token = now;
}

/// False at the end of the stream.
bool take_bytes(Stream& stream, std::string_view bytes, StreamMarks& marks) {
  const auto now = Clock::now();
  marks.bytes.fetch_add(static_cast<std::int64_t>(bytes.size()), std::memory_order_relaxed);
  stream.rest.append(bytes);
  std::string_view rest = stream.rest;
  for (auto end = rest.find("\n\n"); end != rest.npos; end = rest.find("\n\n")) {
    take_event(stream, rest.substr(0, end), now, marks);
    rest.remove_prefix(end + 2);
  }
  stream.rest.erase(0, stream.rest.size() - rest.size());
  return !stream.done;
}

}  // namespace

void read_streams(int port, std::int32_t num_streams, const std::string& request, std::int32_t tokens_each,
                  StreamMarks& marks) {
  std::vector<Stream> streams(static_cast<std::size_t>(num_streams));
  const int poll = ::epoll_create1(EPOLL_CLOEXEC);
  std::int32_t open = 0;
  for (std::size_t i = 0; i < streams.size(); ++i) {
    streams[i].socket = connect_to(port, request);
    if (streams[i].socket < 0) return;
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = i;
    ::epoll_ctl(poll, EPOLL_CTL_ADD, streams[i].socket, &event);
    ++open;
  }
  std::array<epoll_event, 512> events{};
  std::array<char, 64 * 1024> buffer;
  while (open > 0) {
    const int ready = ::epoll_wait(poll, events.data(), static_cast<int>(events.size()), -1);
    for (int i = 0; i < ready; ++i) {
      auto& stream = streams[events[static_cast<std::size_t>(i)].data.u64];
      const auto size = ::read(stream.socket, buffer.data(), buffer.size());
      if (size > 0 && take_bytes(stream, {buffer.data(), static_cast<std::size_t>(size)}, marks)) continue;
      if (stream.done && stream.tokens == tokens_each) marks.complete.fetch_add(1, std::memory_order_relaxed);
      ::close(stream.socket);
      --open;
    }
  }
  ::close(poll);
}

}  // namespace bench
