#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "gpu/result.h"
#include "gpu/units.h"

namespace gpu {

/// Offsets, sizes and addresses of direct reads are multiples of this: the largest block that disks ask for.
inline constexpr std::int64_t kBlockBytes = 4096;

/// Memory that direct reads may end in.
class AlignedBytes {
 public:
  explicit AlignedBytes(std::int64_t size)
      : bytes_(static_cast<std::byte*>(::operator new(static_cast<std::size_t>(size), kAlignment))) {}
  std::byte* get() const { return bytes_.get(); }

 private:
  static constexpr std::align_val_t kAlignment{static_cast<std::size_t>(kBlockBytes)};
  struct Free {
    void operator()(std::byte* bytes) const { ::operator delete(bytes, kAlignment); }
  };
  std::unique_ptr<std::byte, Free> bytes_;
};

/// What is read to get at some bytes: themselves, or the blocks that hold them.
struct ReadWindow {
  std::int64_t offset = 0;
  std::int64_t size = 0;
  std::int64_t skip = 0;    ///< bytes before the first wanted one
  std::int64_t needed = 0;  ///< bytes up to the last wanted one; a file may end right behind it
};
constexpr ReadWindow blocks_around(std::int64_t offset, std::int64_t size) {
  const std::int64_t first = round_down(offset, kBlockBytes);
  return {first, round_up(offset + size, kBlockBytes) - first, offset - first, offset + size - first};
}
/// The largest window that `size` bytes may need, wherever they lie.
constexpr std::int64_t largest_window(std::int64_t size) {
  return round_up(size + kBlockBytes - 1, kBlockBytes);
}

/// A regular file open for reading, with O_DIRECT where its file system takes that.
class DirectFile {
 public:
  enum class Cache { automatic, buffered };
  static Result<DirectFile, std::string> open(const std::filesystem::path& path, Cache cache);

  DirectFile() = default;
  DirectFile(DirectFile&& other) noexcept { swap(other); }
  DirectFile& operator=(DirectFile&& other) noexcept {
    DirectFile moved(std::move(other));
    swap(moved);
    return *this;
  }
  ~DirectFile();

  int descriptor() const { return descriptor_; }
  const std::string& name() const { return name_; }
  bool direct() const { return direct_; }
  /// Why it is not: "" where it is, or was not asked for.
  const std::string& why_buffered() const { return why_buffered_; }

  ReadWindow window(std::int64_t offset, Bytes size) const {
    return direct_ ? blocks_around(offset, size.n) : ReadWindow{offset, size.n, 0, size.n};
  }
  /// Reads a window, waiting for it. Nothing, or what the system says. `to` is aligned where direct().
  std::string read(const ReadWindow& window, std::byte* to) const;

 private:
  std::int64_t size_now() const;
  void swap(DirectFile& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    std::swap(name_, other.name_);
    std::swap(direct_, other.direct_);
    std::swap(why_buffered_, other.why_buffered_);
  }
  int descriptor_ = -1;
  std::string name_;
  bool direct_ = false;
  std::string why_buffered_;
};

}  // namespace gpu
