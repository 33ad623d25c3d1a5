#pragma once

#include <cassert>
#include <span>

#include "kernels/batch.h"
#include "kernels/quantized.h"

namespace kernels {

/// A weight as the backend keeps it: row-major [N, K] in f32, f16 or bf16, or quantised.
struct Weight {
  ConstMatrix matrix;         ///< when not quantised
  QuantizedMatrix quantized;  ///< base is null when not quantised

  Weight() = default;
  Weight(const ConstMatrix& m) : matrix(m) {}
  Weight(const Matrix& m) : matrix(m) {}
  Weight(const QuantizedMatrix& q) : quantized(q) {}
  bool is_quantized() const { return quantized.base != nullptr; }
  Rows rows() const { return is_quantized() ? quantized.rows : matrix.rows; }
  Elements cols() const { return is_quantized() ? quantized.cols : matrix.cols; }
};

/// y[r, n] = sum_k x[r, k] * w[n, k], accumulated in fp32.
/// Shapes    x: [rows, K]; w: [N, K]; y: [rows, N]; K % 8 == 0; rows == 0 is a no-op.
/// Types     x, y: f32 (CUDA: also bf16); w: f32, f16, bf16, or quantised. On the CPU f16/bf16 weights are
///           widened exactly and multiplied in fp32; for quantised weights each row of x is rounded to int8
///           in blocks of 32 (scale = largest magnitude / 127), products are summed exactly within a block,
///           and the blocks' values are added in fp32 in ascending order. CUDA has bf16 with bf16 into bf16
///           or f32, and f32 with f32 into f32; others are refused by name.
/// Order     a row's value depends on (form, N, K) and its operands alone: not on rows, batch, threads or the
///           row's index.
/// Errors    refused: a shape, type or alignment does not hold; `what` names operand, row and numbers;
///           nothing ran.
struct GemmArgs {
  Matrix y;
  ConstMatrix x;
  Weight w;
  Form form = Form::decode;
  const char* name = "gemm";  ///< for errors and traces
};

/// Several products of one x, enqueued together: bit for bit what one gemm after another gives. Nobody's y
/// overlaps x or another y.
struct GemmGroupArgs {
  struct Output {
    Matrix y;
    Weight w;
    const char* name = "gemm";
  };
  ConstMatrix x;
  std::span<const Output> outputs;
  Form form = Form::decode;
};

}  // namespace kernels
