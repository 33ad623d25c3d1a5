#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/dtype.h"
#include "model/checkpoint/mapped_file.h"

namespace model {

/// One tensor of a file, as its header says and as its bytes allow.
struct TensorEntry {
  std::string name;
  gpu::DType dtype = gpu::DType::f32;
  std::vector<std::int64_t> shape;
  std::int64_t offset = 0;  ///< from the start of the data section; not aligned to anything
  std::int64_t bytes = 0;   ///< == product of shape times element size
};

/// "[2, 3]"
std::string to_string(const std::vector<std::int64_t>& shape);

/// Reads the JSON header. Nothing in it is believed: every entry has a known dtype, a shape whose product
/// does not overflow, and offsets that agree with it and lie within `data_bytes`; no name or key appears
/// twice, and the tensors cover the data section without overlap or hole, as the format demands. All problems
/// at once, each naming `file` and the tensor. Pure.
Result<std::vector<TensorEntry>, LoadError> parse_safetensors_header(std::string_view json,
                                                                     std::int64_t data_bytes,
                                                                     std::string_view file);

/// A checked safetensors file. Owns the mapping.
class SafetensorsFile {
 public:
  /// `name` is how problems call the file.
  static Result<SafetensorsFile, LoadError> open(const std::filesystem::path& path, const std::string& name);

  const std::string& name() const { return name_; }
  const std::vector<TensorEntry>& tensors() const { return tensors_; }
  const std::byte* bytes(const TensorEntry& tensor) const {
    return mapped_.base() + data_start_ + tensor.offset;
  }
  /// Bytes [first, first + length) of a tensor are not needed again.
  void release(const TensorEntry& tensor, std::int64_t first, std::int64_t length) const {
    mapped_.release(data_start_ + tensor.offset + first, length);
  }

 private:
  std::string name_;
  MappedFile mapped_;
  std::int64_t data_start_ = 0;
  std::vector<TensorEntry> tensors_;
};

}  // namespace model
