#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "model/errors.h"

namespace model {

/// Where a MODEL lies and what it is called when nobody names it.
struct ModelLocation {
  std::filesystem::path folder;  ///< or a GGUF file
  std::string name;
};

/// `model`: a folder, a .gguf file, or an id whose snapshot is in the hub cache; never the network. "" is the
/// first of `embedded` that exists.
Result<ModelLocation, LoadError> locate_model(const std::string& model, const std::string& hub_cache,
                                              const std::vector<std::filesystem::path>& embedded);

}  // namespace model
