#pragma once

#include "gpu/view.h"

namespace kernels::cpu {

/// Calls body with the typed view of a matrix in a weight's type (f32, f16 or bf16; checked before).
template <class Body>
auto with_weight_type(gpu::ConstMatrix m, const Body& body) {
  switch (m.dtype) {
    case gpu::DType::f16:
      return body(gpu::typed<gpu::f16>(m));
    case gpu::DType::bf16:
      return body(gpu::typed<gpu::bf16>(m));
    default:
      return body(gpu::typed<float>(m));
  }
}

}  // namespace kernels::cpu
