#pragma once

#include <string>

#include "gpu/result.h"

namespace gpu {

/// What a device can answer instead of doing its work.
struct DeviceError {
  enum class Kind {
    refused,  ///< this operation did not run or failed; the device goes on (an empty synchronise afterwards
              ///< succeeds)
    lost,     ///< the context is gone: nothing on this device can be trusted or used again
  };
  Kind kind;
  std::string what;  ///< operation, operand and numbers: `gemm qkv: dst row 8188 not 16-byte aligned`
};

using Status = Result<Done, DeviceError>;

inline DeviceError refused(std::string what) { return {DeviceError::Kind::refused, std::move(what)}; }
inline DeviceError lost(std::string what) { return {DeviceError::Kind::lost, std::move(what)}; }

}  // namespace gpu
