#pragma once

#include <string>

#include "gpu/units.h"

namespace model {

/// "512 B", "9.0 KiB", "1.5 MiB", "58.3 GiB": for people; numbers for programs stay whole.
std::string byte_text(gpu::Bytes bytes);

}  // namespace model
