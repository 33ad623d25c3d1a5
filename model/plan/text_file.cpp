#include "model/plan/text_file.h"

#include <fstream>
#include <ios>
#include <iterator>

namespace model {

std::optional<std::string> read_text_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  try {
    return std::string(std::istreambuf_iterator<char>(file), {});
  } catch (const std::ios_base::failure&) {  // the stream's buffer throws when a read fails
    return std::nullopt;
  }
}

}  // namespace model
