#include "model/checkpoint/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "gpu/units.h"

namespace model {
namespace {

std::string last_error() { return std::generic_category().message(errno); }

}  // namespace

Result<MappedFile, std::string> MappedFile::open(const std::filesystem::path& path) {
  // Non-blocking: opening a pipe somebody put there must not wait for its other end.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return last_error();
  MappedFile mapped;
  std::string problem;
  struct stat status {};
  if (::fstat(file, &status) != 0) {
    problem = last_error();
  } else if (!S_ISREG(status.st_mode)) {
    problem = "not a regular file";
  } else if (status.st_size > 0) {
    void* base = ::mmap(nullptr, static_cast<std::size_t>(status.st_size), PROT_READ, MAP_PRIVATE, file, 0);
    if (base == MAP_FAILED) {
      problem = last_error();
    } else {
      mapped.base_ = static_cast<const std::byte*>(base);
      mapped.size_ = status.st_size;
    }
  }
  ::close(file);
  if (!problem.empty()) return problem;
  return mapped;
}

MappedFile::~MappedFile() {
  if (base_ != nullptr) ::munmap(const_cast<std::byte*>(base_), static_cast<std::size_t>(size_));
}

void MappedFile::release(std::int64_t offset, std::int64_t length) const {
  if (length <= 0) return;
  const std::int64_t first = gpu::round_down(offset, ::sysconf(_SC_PAGESIZE));
  // Advice only: where it is not taken nothing but memory is lost.
  ::madvise(const_cast<std::byte*>(base_) + first, static_cast<std::size_t>(offset + length - first),
            MADV_DONTNEED);
}

Result<std::string, LoadError> read_small_file(const std::filesystem::path& path, std::int64_t limit) {
  const std::string name = path.filename().string();
  auto file = MappedFile::open(path);
  if (!file.ok()) return LoadError{{name + ": " + file.error()}};
  if (file->size() > limit) {
    return LoadError{{name + ": " + std::to_string(file->size()) + " bytes, at most " +
                      std::to_string(limit) + " are read"}};
  }
  return std::string(reinterpret_cast<const char*>(file->base()), static_cast<std::size_t>(file->size()));
}

Result<std::optional<std::string>, LoadError> read_optional_file(const std::filesystem::path& path,
                                                                 std::int64_t limit) {
  std::error_code unknown;
  const auto status = std::filesystem::symlink_status(path, unknown);
  if (status.type() == std::filesystem::file_type::not_found) return std::optional<std::string>();
  auto text = read_small_file(path, limit);
  if (!text.ok()) return std::move(text).error();
  return std::optional(*std::move(text));
}

}  // namespace model
