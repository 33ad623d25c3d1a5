#include "gpu/file/direct_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace gpu {
namespace {

std::string last_error() { return std::generic_category().message(errno); }

// Non-blocking: opening a pipe somebody put there must not wait for its other end.
constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;

/// Whether a direct read works there: some file systems open the file and refuse the read.
std::string try_direct_read(int descriptor) {
  const AlignedBytes block(kBlockBytes);
  ssize_t got = 0;
  do {
    got = ::pread(descriptor, block.get(), static_cast<std::size_t>(kBlockBytes), 0);
  } while (got < 0 && errno == EINTR);
  return got < 0 ? last_error() : "";
}

}  // namespace

Result<DirectFile, std::string> DirectFile::open(const std::filesystem::path& path, Cache cache) {
  DirectFile file;
  file.name_ = path.filename().string();
  if (cache == Cache::automatic) {
    file.descriptor_ = ::open(path.c_str(), kFlags | O_DIRECT);
    file.why_buffered_ = file.descriptor_ < 0 ? last_error() : try_direct_read(file.descriptor_);
    file.direct_ = file.why_buffered_.empty();
    if (!file.direct_ && file.descriptor_ >= 0) ::close(std::exchange(file.descriptor_, -1));
  }
  if (!file.direct_) file.descriptor_ = ::open(path.c_str(), kFlags);
  if (file.descriptor_ < 0) return file.name_ + ": " + last_error();
  struct stat status {};
  if (::fstat(file.descriptor_, &status) != 0) return file.name_ + ": " + last_error();
  if (!S_ISREG(status.st_mode)) return file.name_ + ": not a regular file";
  // Advice only: what lies around a row is not wanted.
  if (!file.direct_) (void)::posix_fadvise(file.descriptor_, 0, 0, POSIX_FADV_RANDOM);
  return file;
}

DirectFile::~DirectFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::int64_t DirectFile::size_now() const {
  struct stat facts {};
  return ::fstat(descriptor_, &facts) == 0 ? facts.st_size : -1;
}

std::string DirectFile::read(const ReadWindow& window, std::byte* to) const {
  std::int64_t got = 0;
  while (got < window.needed) {
    const ssize_t now =
        ::pread(descriptor_, to + got, static_cast<std::size_t>(window.size - got), window.offset + got);
    if (now < 0 && errno == EINTR) continue;
    if (now < 0) return last_error();
    if (now == 0) return "the file ends at byte " + std::to_string(size_now());
    got += now;
  }
  return "";
}

}  // namespace gpu
