#pragma once

#include "kernels/batch.h"

namespace kernels {

/// What is multiplied onto the normalised value: w (llama, qwen3 dense, GDN output) or 1 + w (qwen3_next and
/// later).
enum class NormWeight : std::uint8_t { plain, one_plus };

/// For each group g of `group` consecutive columns: y = x * rsqrt(mean_g(x^2) + eps) * weight, statistics in
/// fp32. Shapes    x, y: [rows, cols], cols % group == 0; w: [group] (shared by all groups) or [cols]
/// (element-wise). y may be x. Source    model-spec RMS0, RMS1, GRMS1 (HF `Qwen3NextRMSNorm`,
/// `LlamaRMSNorm`).
struct RmsNormArgs {
  Matrix y;
  ConstMatrix x;
  ConstVector w;  ///< f32
  Elements group;
  NormWeight weight = NormWeight::one_plus;
  float eps = 1e-6F;
};

enum class GateActivation : std::uint8_t { sigmoid, silu };

/// GDN output norm: per head of `group` columns, y = x * rsqrt(mean(x^2) + eps) * w * act(z). Norm first,
/// gate after. Shapes    x, z, y: [rows, heads * group]; w: [group], plain. y may be x.        Source  HF
/// `Qwen3NextRMSNormGated`.
struct GatedRmsNormArgs {
  Matrix y;
  ConstMatrix x;
  ConstMatrix z;
  ConstVector w;  ///< f32
  Elements group;
  GateActivation activation = GateActivation::silu;
  float eps = 1e-6F;
};

/// Per head: optional RMS norm over head_dim, then rotary embedding, from a strided view into a dense one.
/// y[r, h*head_dim + i] from x[r, h*head_stride + i]; w: [head_dim] or empty (no norm: llama).
/// Shapes    x: [rows, >= (heads-1)*head_stride + head_dim]; y: [rows, heads*head_dim]; rope.inv_freq.size*2
/// <= head_dim. y must not overlap x
///           unless head_stride == head_dim and y is x.
struct HeadNormRopeArgs {
  Matrix y;
  ConstMatrix x;
  std::int32_t num_heads = 0;
  std::int32_t head_dim = 0;
  std::int32_t head_stride = 0;
  ConstVector w;  ///< f32 [head_dim] or empty
  NormWeight weight = NormWeight::one_plus;
  float eps = 1e-6F;
  Rope rope;
};

}  // namespace kernels
