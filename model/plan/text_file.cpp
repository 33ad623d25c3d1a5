#include "model/plan/text_file.h"

#include "model/checkpoint/mapped_file.h"

namespace model {
namespace {

constexpr std::int64_t kMaxBytes = 16 << 20;

}  // namespace

std::optional<std::string> read_text_file(const std::filesystem::path& path) {
  auto text = read_small_file(path, kMaxBytes);
  if (!text.ok()) return std::nullopt;
  return *std::move(text);
}

}  // namespace model
