#pragma once

#include "kernels/gemm.h"

namespace kernels {

/// y[r] = table[ids[slot(r)][position(r)]], widened to y's type.     Shapes  y: [rows, H]; table: [vocab, H];
/// ids: i32 [num_slots, max_seq_len]. A token id outside the table is refused.
struct EmbeddingArgs {
  Matrix y;
  Weight table;
  MatrixView<const std::int32_t> ids;
};

/// y[i] = x[rows[i]].     Shapes  y: [n, cols]; rows: i32 [n].
struct GatherRowsArgs {
  Matrix y;
  ConstMatrix x;
  VectorView<const std::int32_t> rows;
};

/// y += x.
struct AddArgs {
  Matrix y;
  ConstMatrix x;
};

/// y = silu(x * scale).  y may be x.
struct ScaledSiluArgs {
  Matrix y;
  ConstMatrix x;
  float scale = 1.0F;
};

/// y = silu(gate) * up.  y may be gate or up.
struct SwigluArgs {
  Matrix y;
  ConstMatrix gate, up;
};

}  // namespace kernels
