#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "gpu/dtype.h"

namespace model {

/// An n-gram table that stays in its files: where each row lies, and how its numbers are kept.
struct StoredTable {
  /// Rows that follow one another in a file.
  struct Part {
    std::int64_t first_row = 0, rows = 0;
    std::int32_t file = 0;    ///< index of `files`
    std::int64_t offset = 0;  ///< of the first row, in the file
  };
  struct Place {
    std::int32_t file = 0;
    std::int64_t offset = 0;
  };

  gpu::DType type = gpu::DType::bf16;  ///< f32, f16, bf16, or f8_e4m3 with a scale
  float scale = 1.0F;
  std::int64_t rows = 0, dim = 0;
  std::vector<std::filesystem::path> files;
  std::vector<Part> parts;  ///< ascending, without a hole

  gpu::Bytes row_bytes() const { return gpu::bytes_of(type, gpu::Elements{dim}); }
  /// Requires 0 <= row < rows.
  Place place_of(std::int64_t row) const;
};

}  // namespace model
