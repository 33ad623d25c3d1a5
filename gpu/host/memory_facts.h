#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gpu/units.h"

namespace gpu {

struct MemoryFacts {
  Bytes total;
  Bytes available;
};

/// Reads the text of /proc/meminfo; a line that is missing counts as zero.
MemoryFacts parse_meminfo(std::string_view meminfo);

/// The files that tell of one control group's memory; version 1 or 2 of the interface.
struct CgroupFiles {
  std::string limit, current, stat;
};
/// Of the groups that a process is in, from its own up to the root. `groups` is the text of
/// /proc/self/cgroup. Some need not exist: within a container parents are out of sight.
std::vector<CgroupFiles> memory_cgroups(std::string_view groups);

/// What a control group leaves of the machine's memory, from the texts of its files. A limit of "max", an
/// empty text or anything else that is no number means none. Of the current use, file pages that nobody used
/// lately are not counted: a model that was read before must not look like memory that is gone.
MemoryFacts within_cgroup(MemoryFacts machine, std::string_view limit, std::string_view current,
                          std::string_view stat);

}  // namespace gpu
