#pragma once

#include "kernels/gemm.h"

namespace kernels {

/// Row ids of the n-gram table for each row (model-spec 5.2). t_0 = ids[slot][p]; t_s = ids[slot][p-s], or
/// `eos` when p-s < 0 or when any of ids[p-1 … p-s] is eos. mix of order m = xor_{s<m} t_s * multipliers[s];
/// head h of order m (m = 2 … ngram_size, heads_per_ngram each, ascending): rows[r, h] = mix_m % sizes[h] +
/// offsets[h]. Shapes    rows: i64 [rows, heads]; ids: i32 [num_slots, max_seq_len]; multipliers:
/// [ngram_size]; sizes, offsets: [heads].
struct NgramRowsArgs {
  MatrixView<std::int64_t> rows;
  MatrixView<const std::int32_t> ids;
  VectorView<const std::int64_t> multipliers, sizes, offsets;
  std::int32_t ngram_size = 0, heads_per_ngram = 0;
  std::int32_t eos = 0;
};

/// y[r, h*dim + i] = table[rows[r, h], i], widened to y's type.     Shapes  table: [table_rows, dim], f32,
/// f16, bf16 or quantised; y: [rows, heads*dim]. A row id outside the table is refused, naming row and id (on
/// CUDA found by a flag checked with the step).
struct GatherTableArgs {
  Matrix y;
  Weight table;
  MatrixView<const std::int64_t> rows;
};

/// s_j = (key_j . query_j) / sqrt(H); t_j = sign(s_j) * sqrt(max(|s_j|, 1e-6)), 0 where s_j == 0; gv[r,
/// j*H+i] = sigmoid(t_j) * value[r, i]. Shapes    gv, key, query: [rows, C*H]; value: [rows, H].
struct PleGateArgs {
  Matrix gv;
  ConstMatrix key, query, value;
  std::int32_t num_streams = 0;
};

}  // namespace kernels
