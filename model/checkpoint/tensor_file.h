#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "model/checkpoint/mapped_file.h"
#include "model/checkpoint/stored_type.h"

namespace model {

/// One tensor of a file, as its header says and as its bytes allow.
struct TensorEntry {
  std::string name;
  StoredType type;
  std::vector<std::int64_t> shape;  ///< row-major: the last dimension is contiguous
  std::int64_t offset = 0;          ///< from the start of the data section; not aligned to anything
  std::int64_t bytes = 0;           ///< what shape and type need
};

/// "[2, 3]"
std::string to_string(const std::vector<std::int64_t>& shape);

/// A file of tensors whose header was checked. Owns the mapping.
class TensorFile {
 public:
  const std::string& name() const { return name_; }
  const std::filesystem::path& path() const { return path_; }
  const std::vector<TensorEntry>& tensors() const { return tensors_; }
  const std::byte* bytes(const TensorEntry& tensor) const {
    return mapped_.base() + data_start_ + tensor.offset;
  }
  /// Where a tensor begins in the file.
  std::int64_t file_offset(const TensorEntry& tensor) const { return data_start_ + tensor.offset; }
  /// Nothing of the file is read again soon, its header included.
  void release_all() const { mapped_.release(0, mapped_.size()); }
  /// Bytes [first, first + length) of a tensor are not needed again.
  void release(const TensorEntry& tensor, std::int64_t first, std::int64_t length) const {
    mapped_.release(data_start_ + tensor.offset + first, length);
  }

 protected:
  TensorFile() = default;

  std::string name_;
  std::filesystem::path path_;
  MappedFile mapped_;
  std::int64_t data_start_ = 0;
  std::vector<TensorEntry> tensors_;
};

}  // namespace model
