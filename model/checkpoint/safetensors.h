#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "model/checkpoint/tensor_file.h"

namespace model {

/// Reads the JSON header. Nothing in it is believed: every entry has a known dtype, a shape whose product
/// does not overflow, and offsets that agree with it and lie within `data_bytes`; no name or key appears
/// twice, and the tensors cover the data section without overlap or hole, as the format demands. All problems
/// at once, each naming `file` and the tensor. Pure.
Result<std::vector<TensorEntry>, LoadError> parse_safetensors_header(std::string_view json,
                                                                     std::int64_t data_bytes,
                                                                     std::string_view file);

/// A checked safetensors file.
class SafetensorsFile : public TensorFile {
 public:
  /// `name` is how problems call the file.
  static Result<SafetensorsFile, LoadError> open(const std::filesystem::path& path, const std::string& name);
};

}  // namespace model
