#include "gpu/host/host_stream.h"

#include <cstring>
#include <string>

namespace gpu {
namespace {

Status move_bytes(void* to, const void* from, Bytes size, const char* what) {
  if (size.n == 0) return Done{};
  if (size.n < 0 || to == nullptr || from == nullptr) {
    return refused(std::string("copy ") + what + ": " + std::to_string(size.n) +
                   " bytes with a null end or a negative size");
  }
  std::memmove(to, from, static_cast<std::size_t>(size.n));
  return Done{};
}

}  // namespace

Status PooledHostStream::synchronize() {
  if (lost_) return lost(*lost_);
  return Done{};
}

Status PooledHostStream::inject(InjectedFault fault, const char* what) {
  if (lost_) return lost(*lost_);
  switch (fault) {
    case InjectedFault::refused_launch:
      return refused(std::string(what) + ": injected, a launch that is refused");
    case InjectedFault::out_of_memory:
      return refused(std::string(what) + ": injected, no memory is left");
    case InjectedFault::misaligned_address:
      lost_ = std::string(what) + ": injected, a misaligned address";
      break;
    case InjectedFault::illegal_address:
      lost_ = std::string(what) + ": injected, an illegal address";
      break;
  }
  return Done{};
}

Status PooledHostStream::fill_zero(std::byte* base, Bytes size, const char* what) {
  if (lost_) return lost(*lost_);
  if (size.n == 0) return Done{};
  if (size.n < 0 || base == nullptr) {
    return refused(std::string("fill_zero ") + what + ": " + std::to_string(size.n) +
                   " bytes at null or a negative size");
  }
  std::memset(base, 0, static_cast<std::size_t>(size.n));
  return Done{};
}

Status PooledHostStream::copy(std::byte* to, const std::byte* from, Bytes size, const char* what) {
  if (lost_) return lost(*lost_);
  return move_bytes(to, from, size, what);
}
Status PooledHostStream::copy_to_device(std::byte* to, const void* from, Bytes size, const char* what) {
  if (lost_) return lost(*lost_);
  return move_bytes(to, from, size, what);
}
Status PooledHostStream::copy_to_host(void* to, const std::byte* from, Bytes size, const char* what) {
  if (lost_) return lost(*lost_);
  return move_bytes(to, from, size, what);
}

Status PooledHostStream::parallel(const char* what, std::int64_t num_tiles,
                                  const std::function<void(std::int64_t)>& tile) {
  if (lost_) return lost(*lost_);
  if (num_tiles <= 0) return Done{};
  if (!pool_.run(num_tiles, tile))
    return refused(std::string(what) + ": a tile of the operation threw an exception");
  return Done{};
}

}  // namespace gpu
