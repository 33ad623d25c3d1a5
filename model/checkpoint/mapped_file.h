#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "model/errors.h"

namespace model {

/// A regular file mapped for reading. What is mapped is the file as long as it was when it was opened.
class MappedFile {
 public:
  /// The error is what the system says; the caller knows what the file was for.
  static Result<MappedFile, std::string> open(const std::filesystem::path& path);

  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept { swap(other); }
  MappedFile& operator=(MappedFile&& other) noexcept {
    MappedFile moved(std::move(other));
    swap(moved);
    return *this;
  }
  ~MappedFile();

  const std::byte* base() const { return base_; }
  std::int64_t size() const { return size_; }

  /// The bytes are not needed again: their pages leave this process, so that copying weights does not hold
  /// them twice.
  void release(std::int64_t offset, std::int64_t length) const;

 private:
  void swap(MappedFile& other) noexcept {
    std::swap(base_, other.base_);
    std::swap(size_, other.size_);
  }

  const std::byte* base_ = nullptr;
  std::int64_t size_ = 0;
};

/// The whole of a small file. Longer than `limit` is an error.
Result<std::string, LoadError> read_small_file(const std::filesystem::path& path, std::int64_t limit);
/// The same of a file that need not be there. One that is there and cannot be read is an error, never an
/// absence.
Result<std::optional<std::string>, LoadError> read_optional_file(const std::filesystem::path& path,
                                                                 std::int64_t limit);

}  // namespace model
