#pragma once

#include <string_view>

#include "gpu/units.h"

namespace gpu {

struct MemoryFacts {
  Bytes total;
  Bytes available;
};

/// Reads the text of /proc/meminfo; a line that is missing counts as zero.
MemoryFacts parse_meminfo(std::string_view meminfo);

/// What a control group leaves of the machine's memory. `limit` and `current` are the texts of memory.max and
/// memory.current; "max", an empty text or anything else that is no number means no limit.
MemoryFacts within_cgroup(MemoryFacts machine, std::string_view limit, std::string_view current);

}  // namespace gpu
