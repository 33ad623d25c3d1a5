#pragma once

#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/device/faults.cuh"
#include "kernels/cuda/device/pieces.cuh"

/// Rows looked up in a table: what embedding, gather_rows and gather_table share.
namespace kernels::cuda {

/// y[r, g*width + i] = table[find(r, g), i] for all groups g of a row, widened to T. `find` answers a row of
/// the table, or a negative number after it has reported why there is none: then nothing is written. Bytes:
/// each row read and written once.
template <class T, class S, bool kWide, class Find>
__global__ void copy_rows_kernel(MatrixView<T> y, MatrixView<const S> table, int groups, int pieces,
                                 Find find) {
  const std::int64_t index = piece_index();
  if (index >= std::int64_t{groups} * pieces) return;
  const int group = static_cast<int>(index) / pieces;
  const std::int64_t column = static_cast<std::int64_t>(static_cast<int>(index) % pieces) * kPiece;
  const int count = values_left(table.cols.n, column);
  for (std::int64_t r = first_piece_row(); r < y.rows.n; r += piece_row_step()) {
    const std::int64_t row = find(r, group);
    if (row < 0) continue;
    float values[kPiece];
    load_piece<kWide>(table.row(Rows{row}) + column, count, values);
    store_piece<kWide>(y.row(Rows{r}) + group * table.cols.n + column, count, values);
  }
}

template <class T, class S, class Find>
gpu::Status copy_rows(Context& context, const char* what, const Matrix& y, const ConstMatrix& table,
                      std::int64_t groups, const Find& find) {
  const std::int64_t pieces = gpu::ceil_div(table.cols.n, kPiece);
  return with_width(in_pieces(y, table.cols) && in_pieces(table, table.cols), [&](auto width) {
    return launch(context.stream, what, piece_grid(y.rows.n, groups * pieces),
                  copy_rows_kernel<T, S, decltype(width)::value, Find>, gpu::typed<T>(y),
                  gpu::typed<S>(table), static_cast<int>(groups), static_cast<int>(pieces), find);
  });
}

/// From a table of any float type. Refused for a quantised one.
template <class Find>
gpu::Status copy_rows(Context& context, const char* what, const Matrix& y, const Weight& table,
                      std::int64_t groups, const Find& find) {
  if (table.is_quantized()) {
    return gpu::refused(std::string(what) + ": the table is " +
                        std::string(to_string(table.quantized.format)) +
                        ", which this backend does not read");
  }
  return with_activation(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    switch (table.matrix.dtype) {
      case gpu::DType::f32:
        return copy_rows<T, float>(context, what, y, table.matrix, groups, find);
      case gpu::DType::f16:
        return copy_rows<T, gpu::f16>(context, what, y, table.matrix, groups, find);
      default:
        return copy_rows<T, gpu::bf16>(context, what, y, table.matrix, groups, find);
    }
  });
}

}  // namespace kernels::cuda
