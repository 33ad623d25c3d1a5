#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "gpu/result.h"

namespace gpu {

/// An io_uring for reads, straight on the kernel's interface. One thread.
class Uring {
 public:
  /// The error is what the system says: there is none in this kernel, or it is not permitted here.
  static Result<std::unique_ptr<Uring>, std::string> create(std::uint32_t depth);
  ~Uring();
  Uring(const Uring&) = delete;
  Uring& operator=(const Uring&) = delete;

  /// Puts a read into the ring. Requires fewer than `depth` reads under way.
  void prepare(int descriptor, std::byte* to, std::uint32_t size, std::int64_t offset, std::uint64_t tag);
  /// Hands over what was prepared and waits until a read has ended. Nothing, or what the system says: then no
  /// more can be asked of this ring.
  std::string submit();

  struct Completion {
    std::uint64_t tag = 0;
    std::int32_t result = 0;  ///< bytes, or a negative errno
  };
  std::optional<Completion> next();

 private:
  Uring() = default;
  std::string map();
  bool enter(std::uint32_t entries);

  int descriptor_ = -1;
  void* rings_ = nullptr;  // both of them, one behind the other
  std::size_t rings_bytes_ = 0;
  void* entries_ = nullptr;  // submissions
  std::size_t entries_bytes_ = 0;
  std::uint32_t to_submit_ = 0, under_way_ = 0;
  struct Layout;
  std::unique_ptr<Layout> layout_;
};

}  // namespace gpu
