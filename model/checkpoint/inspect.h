#pragma once

#include <filesystem>
#include <string>

#include "model/errors.h"

namespace model {

/// A model of this machine as text for a reader: architecture, sizes, how many numbers are stored in which
/// type, tokenizer and template, and every tensor with its type and shape. Reads headers only.
Result<std::string, LoadError> describe_model(const std::filesystem::path& path);

}  // namespace model
