#include "bench/step/socket_clock.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

namespace bench {
namespace {

std::atomic<std::int64_t> calls{0};
std::atomic<std::int64_t> nanoseconds{0};  // estimated, of all calls

std::int64_t thread_cpu_now() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

/// One call in so many is timed and counts for all: the clock is a system call itself. A prime, so that it
/// does not always meet the same streams.
constexpr std::int64_t kStride = 13;

template <class Call>
ssize_t timed(Call call) {
  if (calls.fetch_add(1, std::memory_order_relaxed) % kStride != 0) return call();
  const auto begin = thread_cpu_now();
  const auto sent = call();
  const int error = errno;
  nanoseconds.fetch_add(kStride * (thread_cpu_now() - begin), std::memory_order_relaxed);
  errno = error;
  return sent;
}

}  // namespace

SocketWrites socket_writes() {
  return {calls.load(std::memory_order_relaxed),
          1e-9 * static_cast<double>(nanoseconds.load(std::memory_order_relaxed))};
}

}  // namespace bench

extern "C" ssize_t send(int socket, const void* bytes, size_t size, int flags) {
  return bench::timed([&] { return syscall(SYS_sendto, socket, bytes, size, flags, nullptr, 0); });
}

extern "C" ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  return bench::timed([&] { return syscall(SYS_sendmsg, socket, message, flags); });
}
