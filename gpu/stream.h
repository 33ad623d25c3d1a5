#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "gpu/error.h"
#include "gpu/units.h"

namespace gpu {

/// What a drill or a test asks a stream to suffer. On CUDA these are the real things: a launch that the
/// runtime refuses, an allocation that no device has room for, a kernel that reads at an odd address, one
/// that writes where no memory is.
enum class InjectedFault : std::uint8_t {
  refused_launch,
  out_of_memory,
  misaligned_address,
  illegal_address,
};

/// Work in order on one device. Ops enqueue; `synchronize` waits for everything enqueued so far and tells
/// what became of it. On the host an operation has run when its call returns. Owned and called by one thread.
/// Faults are injected here, so that every backend runs the same fault matrix.
class Stream {
 public:
  virtual ~Stream() = default;

  virtual Status synchronize() = 0;
  virtual Status fill_zero(std::byte* base, Bytes size, const char* what) = 0;
  virtual Status copy(std::byte* to, const std::byte* from, Bytes size,
                      const char* what) = 0;  // device to device
  virtual Status copy_to_device(std::byte* to, const void* from, Bytes size,
                                const char* what) = 0;  // `from` may be reused at return
  virtual Status copy_to_host(void* to, const std::byte* from, Bytes size,
                              const char* what) = 0;  // valid after synchronize()

  /// Raised by the Runner once a layer; read by any thread. The step deadline watches it.
  virtual std::uint64_t progress() const = 0;
  virtual void note_progress() = 0;

  /// Does it, as an operation enqueued like any other: a refusal is this call's answer, a sticky fault is
  /// found by a later call, at the latest by synchronize.
  virtual Status inject(InjectedFault, const char* what) {
    return refused(std::string(what) + ": this stream injects no faults");
  }
};

/// What a CPU op runs on: tiles of one operation over the stream's workers. `tile` is called once for each
/// index in [0, num_tiles), from any worker, in any order; a result must not depend on which.
class HostStream : public Stream {
 public:
  virtual Status parallel(const char* what, std::int64_t num_tiles,
                          const std::function<void(std::int64_t)>& tile) = 0;
};

}  // namespace gpu
