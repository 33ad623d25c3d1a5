#pragma once

#include <cuda_runtime.h>

#include "gpu/error.h"

namespace gpu {

/// The one place that says what a CUDA error means. None: done. An error after which an empty synchronise of
/// the device succeeds was one operation's (`refused`: the error is cleared, the device goes on); one after
/// which it fails is sticky (`lost`: the context is gone). `what` names the operation.
Status check(cudaError_t error, const char* what);

/// The same for the launch that has just been made.
inline Status check_launch(const char* what) { return check(cudaGetLastError(), what); }

}  // namespace gpu
