#pragma once

#include "kernels/batch.h"

namespace kernels {

/// A weight as the backend keeps it: row-major [N, K], f32, f16 or bf16.
struct Weight {
  ConstMatrix matrix;
};

/// y[r, n] = sum_k x[r, k] * w[n, k], accumulated in fp32.
/// Shapes    x: [rows, K]; w: [N, K]; y: [rows, N]; K % 8 == 0; rows == 0 is a no-op.
/// Types     x, y: f32 (CUDA: also bf16); w: f32, f16, bf16. On the CPU f16/bf16 weights are widened exactly
/// and multiplied in fp32. Order     a row's value depends on (form, N, K) and its operands alone: not on
/// rows, batch, threads or the row's index. Errors    refused: a shape, type or alignment does not hold;
/// `what` names operand, row and numbers; nothing ran.
struct GemmArgs {
  Matrix y;
  ConstMatrix x;
  Weight w;
  Form form = Form::decode;
  const char* name = "gemm";  ///< for errors and traces
};

}  // namespace kernels
