#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/errors.h"

namespace model {

/// One value of a --config file, as its flag would spell it; a list gives one entry an element.
struct ConfigEntry {
  std::string key;
  std::string value;
  std::size_t line = 0;
};

/// TOML: keys named like flags, at the top level. Problems name file and line.
Result<std::vector<ConfigEntry>, LoadError> parse_config_file(std::string_view toml, const std::string& path);

}  // namespace model
