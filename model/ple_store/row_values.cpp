#include "model/ple_store/row_values.h"

#include <bit>
#include <cassert>
#include <cstring>

#include "kernels/widen.h"
#include "model/checkpoint/widen.h"

namespace model {
namespace {

float widen(gpu::bf16 value) { return std::bit_cast<float>(std::uint32_t{value.bits} << 16); }

}  // namespace

RowValues::RowValues(const StoredTable& table, gpu::DType to) : from_(table.type), to_(to), dim_(table.dim) {
  assert(to == gpu::DType::f32 || to == gpu::DType::bf16);
  if (from_ == gpu::DType::f8_e4m3) of_byte_ = scaled_e4m3(table.scale);
}

void RowValues::convert(const std::byte* row, std::byte* to) const {
  if (from_ == to_) {
    std::memcpy(to, row, static_cast<std::size_t>(row_bytes().n));
    return;
  }
  for (std::int64_t i = 0; i < dim_; ++i) {
    const float wide = value(row, i);
    if (to_ == gpu::DType::f32) {
      std::memcpy(to + i * std::int64_t{sizeof wide}, &wide, sizeof wide);
    } else {
      const gpu::bf16 narrow = narrow_to_bf16(wide);
      std::memcpy(to + i * std::int64_t{sizeof narrow}, &narrow, sizeof narrow);
    }
  }
}

float RowValues::value(const std::byte* row, std::int64_t i) const {
  const auto stored = [&](auto number) {
    std::memcpy(&number, row + i * std::int64_t{sizeof number}, sizeof number);
    return number;
  };
  switch (from_) {
    case gpu::DType::f8_e4m3:
      return widen(of_byte_[std::to_integer<std::size_t>(row[i])]);
    case gpu::DType::bf16:
      return widen(stored(gpu::bf16{}));
    case gpu::DType::f16:
      return kernels::widen_half(stored(gpu::f16{}).bits);
    default:
      return stored(0.0F);
  }
}

}  // namespace model
