#pragma once

#include <cstddef>
#include <vector>

#include "gpu/dtype.h"

namespace model {

/// `count` numbers at `from` (f32, f16 or bf16; aligned to nothing) as f32, exactly.
std::vector<float> widen(const std::byte* from, gpu::DType dtype, std::int64_t count);

/// The nearest bf16, ties to even; NaN stays NaN.
gpu::bf16 narrow_to_bf16(float value);
/// What each of the 256 bytes of an f8_e4m3 tensor with this scale stands for (model-spec 5.5).
std::vector<gpu::bf16> scaled_e4m3(float scale);
/// `count` numbers of one floating type as another, byte for byte as a device keeps them.
std::vector<std::byte> converted(const std::byte* from, gpu::DType dtype, std::int64_t count, gpu::DType to);

}  // namespace model
