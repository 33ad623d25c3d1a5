#include "model/plan/byte_text.h"

#include <cstdio>

namespace model {

std::string byte_text(gpu::Bytes bytes) {
  char text[32];
  const auto value = static_cast<double>(bytes.n);
  if (bytes.n < 1 << 10) {
    std::snprintf(text, sizeof text, "%lld B", static_cast<long long>(bytes.n));
  } else if (bytes.n < 1 << 20) {
    std::snprintf(text, sizeof text, "%.1f KiB", value / (1 << 10));
  } else if (bytes.n < 1 << 30) {
    std::snprintf(text, sizeof text, "%.1f MiB", value / (1 << 20));
  } else {
    std::snprintf(text, sizeof text, "%.2f GiB", value / (1 << 30));
  }
  return text;
}

}  // namespace model
