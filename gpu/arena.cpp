#include "gpu/arena.h"

#include <algorithm>
#include <string>

namespace gpu {

Result<std::byte*, DeviceError> Arena::take(Bytes size, const char* what) {
  const Bytes start{round_up(used_.n, kAlignment)};
  if (size.n < 0 || start + size > capacity()) {
    return refused(std::string("arena ") + what + ": " + std::to_string(size.n) + " bytes wanted at " +
                   std::to_string(start.n) + " of " + std::to_string(capacity().n));
  }
  used_ = start + size;
  high_water_ = std::max(high_water_, used_);
  return buffer_.base() + start.n;
}

Result<Matrix, DeviceError> Arena::matrix(DType dtype, Rows rows, Elements cols, const char* what) {
  auto base = take(bytes_for(dtype, rows, cols), what);
  if (!base.ok()) return std::move(base).error();
  return Matrix{*base, dtype, rows, cols, pitch_for(dtype, cols)};
}

Bytes Arena::bytes_for(DType dtype, Rows rows, Elements cols) {
  return {round_up(bytes_of(dtype, rows * pitch_for(dtype, cols)).n, kAlignment)};
}

Elements Arena::pitch_for(DType dtype, Elements cols) {
  return {round_up(cols.n, kPitchAlignment / size_of(dtype))};
}

}  // namespace gpu
