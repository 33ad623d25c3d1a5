#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace model {

/// The whole of a file that an operator named, a pipe included; null when it cannot be opened or read.
std::optional<std::string> read_text_file(const std::filesystem::path& path);

}  // namespace model
