#include <algorithm>

#include "kernels/arg_rules.h"
#include "kernels/check_args.h"

// Operations that read a row's sequence: its slot, its position, pages and states.
namespace kernels {

Refusal check_args(const RowBatch& batch, const EmbeddingArgs& args, Activations activations) {
  if (batch.num_rows.n == 0) return {};
  return ArgRules("embedding")
      .batch(batch)
      .matrix("y", args.y, activation_types(activations), batch.num_rows, args.table.cols())
      .table("table", args.table)
      .matrix_of_at_least("ids", untyped(args.ids), kI32, Rows{1},
                          Elements{std::int64_t{batch.max_position} + 1})
      .refusal();
}

Refusal check_args(const RowBatch& batch, const HeadNormRopeArgs& args, Activations activations) {
  if (batch.num_rows.n == 0) return {};
  const std::int64_t last_head = std::int64_t{args.num_heads - 1} * args.head_stride + args.head_dim;
  const Elements y_cols{std::int64_t{args.num_heads} * args.head_dim};
  ArgRules rules("head_norm_rope");
  rules.batch(batch)
      .at_least("num_heads", args.num_heads, 1)
      .at_least("head_dim", args.head_dim, 1)
      .at_least("head_stride", args.head_stride, args.head_dim)
      .equal("x rows", args.x.rows.n, batch.num_rows.n)
      .matrix_of_at_least("x", args.x, activation_types(activations), batch.num_rows, Elements{last_head})
      .matrix("y", args.y, {args.x.dtype}, batch.num_rows, y_cols)
      .rope(args.rope, args.head_dim);
  if (!args.w.empty()) rules.vector("w", args.w, Elements{args.head_dim});
  if (args.head_stride == args.head_dim) {
    rules.same_or_apart("y", args.y, "x", args.x);
  } else {
    rules.apart("y", args.y, "x", args.x);
  }
  return rules.refusal();
}

Refusal check_args(const RowBatch& batch, const KvAppendArgs& args, Activations activations) {
  if (batch.num_rows.n == 0) return {};
  return ArgRules("kv_append")
      .batch(batch)
      .pages(args.pages, batch)
      .matrix("k", args.k, activation_types(activations), batch.num_rows, args.k.cols)
      .matrix("v", args.v, {args.k.dtype}, batch.num_rows, args.k.cols)
      .matrix_of_at_least("k_cache", args.k_cache, {args.k.dtype}, Rows{args.pages.block}, args.k.cols)
      .matrix_of_at_least("v_cache", args.v_cache, {args.k.dtype}, Rows{args.pages.block}, args.k.cols)
      .equal("k_cache cols", args.k_cache.cols.n, args.k.cols.n)
      .equal("v_cache cols", args.v_cache.cols.n, args.k.cols.n)
      .equal("v_cache rows", args.v_cache.rows.n, args.k_cache.rows.n)
      .multiple("k_cache rows", args.k_cache.rows.n, args.pages.block)
      .refusal();
}

Refusal check_args(const RowBatch& batch, const AttentionArgs& args, Activations activations) {
  if (batch.num_rows.n == 0) return {};
  const Elements q_cols{std::int64_t{args.num_heads} * args.head_dim};
  const Elements kv_cols{std::int64_t{args.num_kv_heads} * args.head_dim};
  ArgRules rules("attention");
  rules.batch(batch)
      .pages(args.pages, batch)
      .at_least("num_kv_heads", args.num_kv_heads, 1)
      .at_least("num_heads", args.num_heads, 1)
      .multiple("num_heads", args.num_heads, args.num_kv_heads)
      .at_least("head_dim", args.head_dim, 1)
      .matrix("q", args.q, activation_types(activations), batch.num_rows, q_cols)
      .matrix("o", args.o, {args.q.dtype}, batch.num_rows, q_cols)
      .matrix("k_cache", args.k_cache, {args.q.dtype}, args.k_cache.rows, kv_cols)
      .matrix("v_cache", args.v_cache, {args.q.dtype}, args.k_cache.rows, kv_cols)
      .at_least("k_cache rows", args.k_cache.rows.n, args.pages.block)
      .multiple("k_cache rows", args.k_cache.rows.n, args.pages.block)
      .same_or_apart("o", args.o, "q", args.q);
  if (args.selection.blocks.base != nullptr) {
    rules.at_least("selection ratio", args.selection.ratio, 1)
        .at_least("selection top_blocks", args.selection.top_blocks, 1)
        .matrix("selection blocks", untyped(args.selection.blocks), kI32, batch.num_rows,
                Elements{args.selection.top_blocks});
  }
  return rules.refusal();
}

Refusal check_args(const RowBatch& batch, const QsaIndexAppendArgs& args, Activations activations) {
  if (batch.num_rows.n == 0) return {};
  const Elements dim = args.raw.cols;
  return ArgRules("qsa_index_append")
      .batch(batch)
      .pages(args.pages, batch)
      .at_least("ratio", args.ratio, 1)
      .multiple("page block", args.pages.block, args.ratio)
      .at_least("ring_rows", args.ring_rows, args.ratio)
      .multiple("ring_rows", args.ring_rows, args.ratio)
      .matrix("raw", args.raw, activation_types(activations), batch.num_rows, dim)
      .matrix("ring", args.ring, {args.raw.dtype}, args.ring.rows, dim)
      .at_least("ring rows", args.ring.rows.n, args.ring_rows)
      .multiple("ring rows", args.ring.rows.n, args.ring_rows)
      .matrix("closed", args.closed, {args.raw.dtype}, args.closed.rows, dim)
      .at_least("closed rows", args.closed.rows.n, args.pages.block / std::max(args.ratio, 1))
      .vector("k_norm", args.k_norm, dim)
      .rope(args.rope, dim.n)
      .refusal();
}

Refusal check_args(const RowBatch& batch, const QsaSelectArgs& args, Activations activations) {
  if (batch.num_rows.n == 0) return {};
  const std::int64_t num_blocks = (std::int64_t{batch.max_position} + 1) / std::max(args.ratio, 1);
  ArgRules rules("qsa_select");
  rules.batch(batch)
      .pages(args.pages, batch)
      .at_least("num_heads", args.num_heads, 1)
      .at_least("dim", args.dim, 1)
      .at_least("ratio", args.ratio, 1)
      .multiple("page block", args.pages.block, args.ratio)
      .at_least("top_blocks", args.top_blocks, 1)
      .matrix("blocks", untyped(args.blocks), kI32, batch.num_rows, Elements{args.top_blocks})
      .matrix("q", args.q, activation_types(activations), batch.num_rows,
              Elements{std::int64_t{args.num_heads} * args.dim})
      .matrix("closed", args.closed, {args.q.dtype}, args.closed.rows, Elements{args.dim});
  if (num_blocks > args.top_blocks) {  // below the bound nothing is scored
    rules.matrix_of_at_least("scores", args.scores, kF32, batch.num_rows, Elements{num_blocks});
  }
  return rules.refusal();
}

Refusal check_args(const RowBatch& batch, const CausalConvArgs& args, Activations activations) {
  if (batch.num_rows.n == 0) return {};
  const Elements channels = args.x.cols;
  const std::int64_t history = std::int64_t{args.taps - 1} * args.dilation;
  return ArgRules("causal_conv")
      .batch(batch)
      .at_least("taps", args.taps, 1)
      .at_least("dilation", args.dilation, 1)
      .at_least("ring_rows", args.ring_rows, std::max<std::int64_t>(history, 1))
      .matrix("x", args.x, activation_types(activations), batch.num_rows, channels)
      .matrix("y", args.y, {args.x.dtype}, batch.num_rows, channels)
      .matrix("w", args.w, kF32, Rows{channels.n}, Elements{args.taps})
      .matrix("ring", args.ring, {args.x.dtype}, args.ring.rows, channels)
      .at_least("ring rows", args.ring.rows.n, args.ring_rows)
      .multiple("ring rows", args.ring.rows.n, args.ring_rows)
      .apart("y", args.y, "x", args.x)
      .refusal();
}

Refusal check_args(const RowBatch& batch, const GdnArgs& args, Activations activations) {
  if (batch.num_rows.n == 0) return {};
  const std::int64_t keys = std::int64_t{args.num_k_heads} * args.k_dim;
  const std::int64_t values = std::int64_t{args.num_v_heads} * args.v_dim;
  return ArgRules("gdn")
      .batch(batch)
      .at_least("num_k_heads", args.num_k_heads, 1)
      .at_least("num_v_heads", args.num_v_heads, 1)
      .multiple("num_v_heads", args.num_v_heads, args.num_k_heads)
      .at_least("k_dim", args.k_dim, 1)
      .at_least("v_dim", args.v_dim, 1)
      .matrix("qkv", args.qkv, activation_types(activations), batch.num_rows, Elements{2 * keys + values})
      .matrix("a", args.a, {args.qkv.dtype}, batch.num_rows, Elements{args.num_v_heads})
      .matrix("b", args.b, {args.qkv.dtype}, batch.num_rows, Elements{args.num_v_heads})
      .vector("a_log", args.a_log, Elements{args.num_v_heads})
      .vector("dt_bias", args.dt_bias, Elements{args.num_v_heads})
      .matrix("o", args.o, {args.qkv.dtype}, batch.num_rows, Elements{values})
      .matrix("state", args.state, kF32, args.state.rows, Elements{std::int64_t{args.k_dim} * args.v_dim})
      .at_least("state rows", args.state.rows.n, args.num_v_heads)
      .multiple("state rows", args.state.rows.n, args.num_v_heads)
      .apart("o", args.o, "qkv", args.qkv)
      .refusal();
}

Refusal check_args(const RowBatch& batch, const NgramRowsArgs& args, Activations) {
  if (batch.num_rows.n == 0) return {};
  const std::int64_t heads = std::int64_t{args.ngram_size - 1} * args.heads_per_ngram;
  return ArgRules("ngram_rows")
      .batch(batch)
      .at_least("ngram_size", args.ngram_size, 2)
      .at_least("heads_per_ngram", args.heads_per_ngram, 1)
      .matrix("rows", untyped(args.rows), kI64, batch.num_rows, Elements{heads})
      .matrix_of_at_least("ids", untyped(args.ids), kI32, Rows{1},
                          Elements{std::int64_t{batch.max_position} + 1})
      .array("multipliers", args.multipliers, args.ngram_size)
      .array("sizes", args.sizes, heads)
      .array("offsets", args.offsets, heads)
      .refusal();
}

}  // namespace kernels
