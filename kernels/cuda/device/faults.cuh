#pragma once

#include "gpu/cuda/fault_record.h"
#include "kernels/cuda/device/intrinsics.cuh"

namespace kernels::cuda {

/// Notes a value out of range; the first of a step stays.
__device__ inline void report(gpu::FaultRecord* record, gpu::ValueFault fault, std::int64_t row,
                              std::int64_t value) {
  if (atomicCAS(&record->fault, 0, static_cast<std::int32_t>(fault)) != 0) return;
  record->row = static_cast<std::int32_t>(row);
  record->value = value;
}

}  // namespace kernels::cuda
