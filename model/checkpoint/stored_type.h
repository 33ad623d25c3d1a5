#pragma once

#include <optional>
#include <string>

#include "gpu/dtype.h"
#include "kernels/quantized.h"

namespace model {

/// How a file keeps the numbers of a tensor: elements of one type, or rows of quantised blocks.
struct StoredType {
  gpu::DType dtype = gpu::DType::f32;  ///< u8 where quantised
  std::optional<kernels::QuantFormat> quantized;

  StoredType() = default;
  StoredType(gpu::DType type) : dtype(type) {}
  StoredType(kernels::QuantFormat format) : dtype(gpu::DType::u8), quantized(format) {}

  gpu::Bytes row_bytes(gpu::Elements cols) const {
    return quantized ? kernels::row_bytes(*quantized, cols) : gpu::bytes_of(dtype, cols);
  }
  bool is_weight() const {
    return quantized || dtype == gpu::DType::f32 || dtype == gpu::DType::f16 || dtype == gpu::DType::bf16;
  }
  friend bool operator==(const StoredType&, const StoredType&) = default;
};

inline std::string to_string(const StoredType& type) {
  return std::string(type.quantized ? kernels::to_string(*type.quantized) : gpu::to_string(type.dtype));
}

}  // namespace model
