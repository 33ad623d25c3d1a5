#pragma once

#include <cstdint>

#include "gpu/view.h"

namespace kernels {

using gpu::ConstMatrix;
using gpu::ConstVector;
using gpu::Elements;
using gpu::Matrix;
using gpu::MatrixView;
using gpu::Rows;
using gpu::VectorView;

/// How a position is computed. It belongs to the position, never to the step: prompt positions are prefill
/// form (GDN chunked on the grid of 64), generated positions decode form (GDN recurrent). Kernels are chosen
/// by (form, N, K) alone, never by rows or batch.
enum class Form : std::uint8_t { prefill, decode };

/// The rows of one form in one step. A segment is one sequence's consecutive rows. All arrays live on the
/// device; counts are host values, for launching. Matrices given to an op beside a RowBatch are already cut
/// to these rows: row r of the op is row r here.
struct RowBatch {
  Form form = Form::decode;
  Rows num_rows;
  VectorView<const std::int32_t> row_slot;      ///< [num_rows] state slot of the row's sequence
  VectorView<const std::int32_t> row_position;  ///< [num_rows] position in the sequence, from 0
  std::int32_t num_segments = 0;
  VectorView<const std::int32_t> segment_slot;       ///< [num_segments]
  VectorView<const std::int32_t> segment_first_row;  ///< [num_segments] row in this batch
  VectorView<const std::int32_t> segment_num_rows;   ///< [num_segments] >= 1
  std::int32_t max_segment_rows = 0;
  std::int32_t max_position = 0;  ///< largest row_position
};

/// Where a (slot, position) lies in paged memory: row `page_table[slot][position / block] * block + position
/// % block`.
struct PageTables {
  MatrixView<const std::int32_t> table;  ///< [num_slots, max_pages]
  std::int32_t block = 16;               ///< positions a page: 16, 32 or 64
};

/// Rotary embedding of the first `rotary_dim` of each head, half-split pairs (i, i + rotary_dim/2); the rest
/// passes through. angle = float(position) * inv_freq[i] in fp32; cos and sin times attention_factor. Source:
/// HF transformers `apply_rotary_pos_emb`.
struct Rope {
  VectorView<const float> inv_freq;  ///< [rotary_dim / 2]
  float attention_factor = 1.0F;
};

}  // namespace kernels
