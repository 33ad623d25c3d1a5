#include "http/open_files.h"

#include <sys/resource.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace http {
namespace {

/// Of a process that serves nobody: standard streams, event loops, model files, a GPU driver's.
constexpr rlim_t kOtherFiles = 128;

}  // namespace

model::Result<model::Done, model::LoadError> allow_open_files(int max_connections) {
  const auto wanted = static_cast<rlim_t>(max_connections) + kOtherFiles;
  const std::string flag = "--max-connections is " + std::to_string(max_connections);
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return model::LoadError{{flag + ": the limit of open files: " + std::strerror(errno)}};
  if (limit.rlim_cur >= wanted) return model::Done{};
  if (limit.rlim_max < wanted) {
    const rlim_t possible = limit.rlim_max > kOtherFiles ? limit.rlim_max - kOtherFiles : 0;
    return model::LoadError{{flag + ": " + std::to_string(wanted) +
                             " open files are needed, this process may have " +
                             std::to_string(limit.rlim_max) + " (ulimit -Hn); at most " +
                             std::to_string(possible) + " are possible"}};
  }
  limit.rlim_cur = wanted;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
    return model::LoadError{{flag + ": " + std::to_string(wanted) + " open files: " + std::strerror(errno)}};
  return model::Done{};
}

}  // namespace http
