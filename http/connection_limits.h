#pragma once

#include <chrono>
#include <cstddef>

namespace http {

/// What one connection may take. Times bound what a client can hold without doing anything.
struct ConnectionLimits {
  std::size_t max_head_bytes = 32 * 1024;
  std::size_t max_body_bytes = 32 * 1024 * 1024;
  /// A larger body is served on the loop's worker: on the I/O thread every other client would wait for it.
  std::size_t max_inline_body_bytes = 64 * 1024;
  std::chrono::milliseconds header_timeout{
      30'000};  ///< from the first byte of a request to the end of its head
  std::chrono::milliseconds idle_timeout{75'000};   ///< between requests
  std::chrono::milliseconds ping_interval{15'000};  ///< comment line in a stream that has nothing to say
  std::chrono::milliseconds write_timeout{30'000};  ///< a reader that takes no byte for so long is gone
  std::chrono::milliseconds linger{2'000};  ///< after a refusal: for the client to read it before the close
  std::size_t min_body_bytes_per_second =
      8 * 1024;                               ///< a body may last header_timeout plus its bytes at this rate
  std::size_t max_stream_bytes = 256 * 1024;  ///< unsent bytes of a stream beyond which its sequences pause …
  std::size_t resume_stream_bytes = 64 * 1024;  ///< … until no more than these wait
  int send_buffer_bytes = 256 * 1024;           ///< the kernel's: its own growth would hide a slow reader
};

}  // namespace http
