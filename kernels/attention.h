#pragma once

#include "kernels/batch.h"

namespace kernels {

/// cache[page row of (slot, position)] = k, v of that row.      Shapes  k, v: [rows, kv_heads*head_dim];
/// caches: [num_pages*block, same].
struct KvAppendArgs {
  Matrix k_cache, v_cache;
  ConstMatrix k, v;
  PageTables pages;
};

/// The positions that a row attends to, ascending. With no selection, or while (p+1)/ratio <= top_blocks: all
/// of 0..p (the identity list). Else the `top_blocks` blocks of `blocks[row]` (ascending; block j = positions
/// ratio*j .. ratio*j+ratio-1), then the open tail ratio*((p+1)/ratio) .. p.
struct Selection {
  MatrixView<const std::int32_t> blocks;  ///< [rows, top_blocks]; base null: no selection in this model
  std::int32_t ratio = 0;
  std::int32_t top_blocks = 0;
};

/// o[r, h] = softmax_{t in list(r)} (scale * q[r,h] . k[t, h / (heads/kv_heads)]) v[t, …], softmax in fp32.
/// The list is walked in tiles of a fixed number of list entries anchored at list index 0, combined in
/// ascending order, in both forms: a row's value depends on its own list and operands alone, and n = bound
/// and bound + 1 share one reduction order. Shapes    q, o: [rows, heads*head_dim]; caches: [num_pages*block,
/// kv_heads*head_dim]; heads % kv_heads == 0. o may be q.
struct AttentionArgs {
  Matrix o;
  ConstMatrix q;
  ConstMatrix k_cache, v_cache;
  PageTables pages;
  std::int32_t num_heads = 0, num_kv_heads = 0, head_dim = 0;
  float scale = 1.0F;
  Selection selection;
};

/// y[r, h*head_dim + i] *= sigmoid(gate[r, h*gate_stride + i]); `gate` is cut so that column 0 is the first
/// head's gate.
struct HeadGateArgs {
  Matrix y;
  ConstMatrix gate;
  std::int32_t num_heads = 0, head_dim = 0, gate_stride = 0;
};

}  // namespace kernels
