#pragma once

#include <cstddef>

#include "gpu/buffer.h"
#include "gpu/error.h"
#include "gpu/view.h"

namespace gpu {

/// Step scratch: sub-buffers handed out in order, each 256-byte aligned, all given back at once. A
/// mark/rewind pair lets layers share bytes: a layer takes its scratch after `mark` and the next one reuses
/// it. Overflow is a broken plan, hence an error and no growth.
class Arena {
 public:
  Arena() = default;
  explicit Arena(Buffer buffer) : buffer_(std::move(buffer)) {}

  Result<std::byte*, DeviceError> take(Bytes size, const char* what);
  /// [rows, cols] with a pitch padded to 16 bytes.
  Result<Matrix, DeviceError> matrix(DType dtype, Rows rows, Elements cols, const char* what);

  Bytes mark() const { return used_; }
  void rewind(Bytes mark) { used_ = mark; }
  Bytes high_water() const { return high_water_; }
  Bytes capacity() const { return buffer_.size(); }

  static constexpr std::int64_t kAlignment = 256;
  static constexpr std::int64_t kPitchAlignment = 16;  // bytes
  /// What `matrix` will take: the plan adds these up.
  static Bytes bytes_for(DType dtype, Rows rows, Elements cols);
  static Elements pitch_for(DType dtype, Elements cols);

 private:
  Buffer buffer_;
  Bytes used_;
  Bytes high_water_;
};

}  // namespace gpu
