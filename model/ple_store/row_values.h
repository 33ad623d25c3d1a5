#pragma once

#include <cstddef>
#include <vector>

#include "model/arch/stored_table.h"

namespace model {

/// Rows as their files keep them, made what a resident table of the same file would give: to the bit.
class RowValues {
 public:
  /// `to`: f32 or bf16.
  RowValues(const StoredTable& table, gpu::DType to);
  void convert(const std::byte* row, std::byte* to) const;
  gpu::Bytes row_bytes() const { return gpu::bytes_of(to_, gpu::Elements{dim_}); }

 private:
  float value(const std::byte* row, std::int64_t i) const;

  gpu::DType from_, to_;
  std::int64_t dim_;
  std::vector<gpu::bf16> of_byte_;  // of f8: what each byte stands for, scale included
};

}  // namespace model
