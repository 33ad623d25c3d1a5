#pragma once

#include "kernels/gemm.h"

namespace kernels {

/// p = softmax_fp32(logits[r]); the top_k largest by (p descending, expert id ascending); weights = p,
/// divided by their sum when `renormalize`.
/// Shapes    logits: [rows, experts] (CUDA: at most 512, top_k at most 32); ids: i32 [rows, top_k]; weights:
///           f32 [rows, top_k], both in descending-p order.
struct MoeRouteArgs {
  MatrixView<std::int32_t> ids;
  MatrixView<float> weights;
  ConstMatrix logits;
  bool renormalize = true;
};

/// y[r] = sum over slots s, in slot order, of weights[r,s] * down_e( silu(gate_e x[r]) * (up_e x[r]) ), e =
/// ids[r,s]; fp32 accumulation. Shapes    x, y: [rows, H]; gate_up: [E*2*I, H] (expert e: rows e*2I … gate,
/// then up); down: [E*H, I];
///           scratch (from the arena): hidden [rows*top_k, 2*I], out [rows*top_k, H], order i32 [rows*top_k +
///           E + 1].
/// Order     a row's value does not depend on which other rows chose the same expert.
struct MoeExpertsArgs {
  Matrix y;
  ConstMatrix x;
  MatrixView<const std::int32_t> ids;
  MatrixView<const float> weights;
  Weight gate_up;
  Weight down;
  std::int32_t num_experts = 0;
  std::int32_t intermediate = 0;
  Form form = Form::decode;
  Matrix hidden;
  Matrix out;
  VectorView<std::int32_t> order;
};

/// y[r] += sigmoid(gate[r, 0]) * shared[r].      Shapes  y, shared: [rows, H]; gate: [rows, >= 1].
struct SharedExpertAddArgs {
  Matrix y;
  ConstMatrix shared;
  ConstMatrix gate;
};

}  // namespace kernels
