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

Bytes line_of(std::string_view meminfo, std::string_view key) {
  while (!meminfo.empty()) {
    const auto end = std::min(meminfo.find('\n'), meminfo.size());
    const std::string_view line = meminfo.substr(0, end);
    if (line.starts_with(key)) return {leading_number(line.substr(key.size())).value_or(0) * 1024};
    meminfo.remove_prefix(std::min(end + 1, meminfo.size()));
  }
  return {0};
}

}  // namespace

MemoryFacts parse_meminfo(std::string_view meminfo) {
  return {line_of(meminfo, "MemTotal:"), line_of(meminfo, "MemAvailable:")};
}

MemoryFacts within_cgroup(MemoryFacts machine, std::string_view limit, std::string_view current) {
  const auto bytes = leading_number(limit);
  if (!bytes || *bytes >= machine.total.n) return machine;
  const std::int64_t used = leading_number(current).value_or(0);
  return {{*bytes}, {std::min(machine.available.n, std::max<std::int64_t>(0, *bytes - used))}};
}

}  // namespace gpu
