#pragma once

#include "kernels/batch.h"
#include "kernels/norm.h"

namespace kernels {

/// Index keys of a QSA layer (model-spec section 4). Raw keys (no norm, no rope) of the open block live in a
/// ring per slot: ring row slot*ring_rows + position % ring_rows. When a row's position p has (p+1) % ratio
/// == 0, block j = p/ratio closes: K_j = rope(rms1(mean_fp32(raw keys ratio*j .. p); k_norm), position
/// ratio*j), written to the closed row of its page, page_table[slot][ratio*j / block] * (block/ratio) +
/// (ratio*j % block) / ratio. Raw keys of this segment's rows are read from `raw`, earlier ones from the
/// ring; then the segment's last ring_rows raw keys enter the ring. Shapes    raw: [rows, dim]; ring:
/// [num_slots*ring_rows, dim]; closed: [num_pages*block/ratio, dim]; ring_rows % ratio == 0.
struct QsaIndexAppendArgs {
  Matrix closed;
  Matrix ring;
  ConstMatrix raw;
  std::int32_t ring_rows = 0;
  std::int32_t ratio = 0;
  PageTables pages;
  ConstVector k_norm;  ///< f32 [dim]
  float eps = 1e-6F;
  Rope rope;
  NormWeight norm_weight = NormWeight::one_plus;  ///< what k_norm is multiplied as
};

/// For each row with nb = (p+1)/ratio > top_blocks: score_j = sum_a max(0, q[r,a] . K_j) for j < nb (fp32;
/// relu before the head sum), and blocks[r] = the top_blocks best, ascending by index; ties: the lower block
/// index wins; NaN counts as -inf. Other rows are not written. (The 1/sqrt(dim) factor does not change the
/// order and is left out.) Shapes    q: [rows, num_heads*dim] after norm and rope; closed as above; blocks:
/// [rows, top_blocks];
///           scores: scratch f32 [rows, >= (max_position+1)/ratio].
struct QsaSelectArgs {
  MatrixView<std::int32_t> blocks;
  Matrix scores;
  ConstMatrix q;
  ConstMatrix closed;
  std::int32_t num_heads = 0, dim = 0;
  std::int32_t ratio = 0, top_blocks = 0;
  PageTables pages;
};

}  // namespace kernels
