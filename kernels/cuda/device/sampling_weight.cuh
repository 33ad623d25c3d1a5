#pragma once

#include "kernels/cuda/device/sampling_row.cuh"

/// Probabilities before they are divided by their sum.
namespace kernels::cuda {

/// e^x for x <= 0, in the operations and the order of the CPU backend's: the same bits, so that min_p keeps
/// the same tokens.
__device__ inline float exp_as_on_cpu(float x) {
  constexpr float kOrigin = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer, kept in the low bits
  const float clamped = fminf(fmaxf(x, -104.5F), 89.0F);
  const float t = fmaf(clamped, 1.44269504F, kOrigin);
  const float n = t - kOrigin;
  const float r = fmaf(n, 2.12194440e-4F, fmaf(n, -0.693359375F, clamped));
  float q = 1.0F / 5040.0F;
  q = fmaf(q, r, 1.0F / 720.0F);
  q = fmaf(q, r, 1.0F / 120.0F);
  q = fmaf(q, r, 1.0F / 24.0F);
  q = fmaf(q, r, 1.0F / 6.0F);
  q = fmaf(q, r, 0.5F);
  const float e = fmaf(q, r * r, r) + 1.0F;
  const int power = __float_as_int(t) - __float_as_int(kOrigin);
  const int half = power >> 1;
  return e * __int_as_float((half + 127) << 23) * __int_as_float((power - half + 127) << 23);
}

/// Weights are summed in steps of 2^-45 (the largest logit weighs 1, 2^18 of them fit): exact, in any order,
/// and finer than the sum of all in fp32.
inline constexpr float kWeightSteps = 0x1p45F;
__device__ inline Sum steps_of(float weight) { return static_cast<Sum>(weight * kWeightSteps); }

/// How a row's logits weigh.
struct Weighing {
  float largest;
  float temperature;
  float least = 0.0F;  ///< min_p: what weighs less is not drawn

  __device__ Sum operator()(int, float logit) const {
    const float weight = exp_as_on_cpu((logit - largest) / temperature);
    return weight < least ? 0 : steps_of(weight);
  }
};

}  // namespace kernels::cuda
