#pragma once

#include <cstdint>

namespace bench {

/// What the process spent in writes to sockets: `send` and `sendmsg` of this program are replaced by ones
/// that make the same system call, now and then between two looks at the calling thread's CPU clock.
struct SocketWrites {
  std::int64_t calls = 0;
  double cpu_seconds = 0.0;
};
SocketWrites socket_writes();

}  // namespace bench
