#include "gpu/host/memory_facts.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>

namespace gpu {
namespace {

std::optional<std::int64_t> leading_number(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return std::nullopt;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data() + first, text.data() + text.size(), value);
  if (error != std::errc{} || value < 0) return std::nullopt;
  return value;
}

/// The first line of the text, which it loses.
std::string_view take_line(std::string_view& text) {
  const auto end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

/// The number behind a key at the begin of a line; none: 0.
std::int64_t number_of(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    if (line.starts_with(key)) return leading_number(line.substr(key.size())).value_or(0);
  }
  return 0;
}

/// Whether "cpu,memory" has memory.
bool controls_memory(std::string_view controllers) {
  while (!controllers.empty()) {
    const auto end = std::min(controllers.find(','), controllers.size());
    if (controllers.substr(0, end) == "memory") return true;
    controllers.remove_prefix(std::min(end + 1, controllers.size()));
  }
  return false;
}

}  // namespace

MemoryFacts parse_meminfo(std::string_view meminfo) {
  return {{number_of(meminfo, "MemTotal:") * 1024}, {number_of(meminfo, "MemAvailable:") * 1024}};
}

std::vector<CgroupFiles> memory_cgroups(std::string_view groups) {
  std::vector<CgroupFiles> files;
  while (!groups.empty()) {  // "4:cpu,memory:/path" of version 1, "0::/path" of version 2
    std::string_view line = take_line(groups);
    const auto first = line.find(':');
    const auto second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const bool unified = controllers.empty();
    if (!unified && !controls_memory(controllers)) continue;
    const std::string mount = unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    std::string_view path = line.substr(second + 1);
    while (path.ends_with('/')) path.remove_suffix(1);
    for (;;) {
      const std::string folder = mount + std::string(path) + '/';
      files.push_back(
          unified ? CgroupFiles{folder + "memory.max", folder + "memory.current", folder + "memory.stat"}
                  : CgroupFiles{folder + "memory.limit_in_bytes", folder + "memory.usage_in_bytes",
                                folder + "memory.stat"});
      if (path.empty()) break;
      path = path.substr(0, path.rfind('/') == path.npos ? 0 : path.rfind('/'));
    }
  }
  return files;
}

MemoryFacts within_cgroup(MemoryFacts machine, std::string_view limit, std::string_view current,
                          std::string_view stat) {
  const auto bytes = leading_number(limit);
  if (!bytes) return machine;
  // Version 1 has its children's pages in a line of their own.
  const std::int64_t idle =
      std::max(number_of(stat, "inactive_file "), number_of(stat, "total_inactive_file "));
  const std::int64_t used = std::max<std::int64_t>(0, leading_number(current).value_or(0) - idle);
  return {{std::min(machine.total.n, *bytes)},
          {std::min(machine.available.n, std::max<std::int64_t>(0, *bytes - used))}};
}

}  // namespace gpu
