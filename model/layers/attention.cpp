#include "model/layers/attention.h"

#include <array>
#include <cmath>

namespace model {

Attention::Attention(const ModelConfig& config, LayerIndex layer, const AttentionWeights& weights,
                     const AttentionMemory& memory, kernels::Rope rope)
    : weights_(weights),
      layer_(layer),
      memory_(memory),
      rope_(rope),
      num_heads_(config.num_heads),
      num_kv_heads_(config.num_kv_heads),
      head_dim_(config.head_dim),
      output_gate_(config.attention_output_gate),
      norm_weight_(config.norm_weight),
      eps_(config.rms_norm_eps) {
  if (weights.indexer) indexer_ = config.indexer;
}

gpu::Status Attention::forward(StepContext& context, ConstMatrix x, Matrix y) const {
  const std::int32_t width = num_heads_ * head_dim_;
  const std::int32_t head_stride = output_gate_ ? 2 * head_dim_ : head_dim_;
  Scratch scratch(context);
  const Matrix projected = scratch.matrix(num_heads_ * head_stride, "attention q");
  const Matrix q = output_gate_ ? scratch.matrix(width, "attention heads") : projected;
  const Matrix k = scratch.matrix(num_kv_heads_ * head_dim_, "attention k");
  const Matrix v = scratch.matrix(num_kv_heads_ * head_dim_, "attention v");
  Matrix qk, blocks;
  if (indexer_) {
    qk = scratch.matrix((indexer_->num_heads + 1) * indexer_->head_dim, "qsa qk");
    blocks = scratch.matrix(DType::i32, indexer_->top_blocks(), "qsa blocks");
  }
  RETURN_IF_ERROR(scratch.status());

  std::array<kernels::GemmGroupArgs::Output, 4> outputs = {{{projected, weights_.q, "attention q"},
                                                            {k, weights_.k, "attention k"},
                                                            {v, weights_.v, "attention v"}}};
  if (indexer_) outputs[3] = {qk, weights_.indexer->qk, "qsa qk"};
  RETURN_IF_ERROR(project(context, x, std::span(outputs).first(indexer_ ? 4 : 3)));
  RETURN_IF_ERROR(append_keys(context, k, v));
  RETURN_IF_ERROR(rotate(context, q, projected, num_heads_, head_stride, weights_.q_norm));
  if (indexer_) RETURN_IF_ERROR(select(context, qk, gpu::typed<std::int32_t>(blocks)));

  kernels::AttentionArgs args;
  args.o = q;
  args.q = q;
  args.k_cache = memory_.keys;
  args.v_cache = memory_.values;
  args.pages = context.pages;
  args.num_heads = num_heads_;
  args.num_kv_heads = num_kv_heads_;
  args.head_dim = head_dim_;
  args.scale = 1.0F / std::sqrt(static_cast<float>(head_dim_));
  if (indexer_) args.selection = {gpu::typed<std::int32_t>(blocks), indexer_->ratio, indexer_->top_blocks()};
  RETURN_IF_ERROR(context.ops.attention(context.stream, context.batch, args));

  if (output_gate_) {
    const Matrix gate = projected.columns(Elements{head_dim_}, Elements{(2 * num_heads_ - 1) * head_dim_});
    RETURN_IF_ERROR(context.ops.head_gate(context.stream, {q, gate, num_heads_, head_dim_, head_stride}));
  }
  return project(context, y, q, weights_.o, "attention o");
}

gpu::Status Attention::rotate(StepContext& context, Matrix y, ConstMatrix x, std::int32_t heads,
                              std::int32_t head_stride, gpu::ConstVector norm) const {
  kernels::HeadNormRopeArgs args;
  args.y = y;
  args.x = x;
  args.num_heads = heads;
  args.head_dim = static_cast<std::int32_t>(y.cols.n / heads);
  args.head_stride = head_stride;
  args.w = norm;
  args.weight = norm_weight_;
  args.eps = eps_;
  args.rope = rope_;
  return context.ops.head_norm_rope(context.stream, context.batch, args);
}

gpu::Status Attention::append_keys(StepContext& context, Matrix k, ConstMatrix v) const {
  RETURN_IF_ERROR(rotate(context, k, k, num_kv_heads_, head_dim_, weights_.k_norm));
  return context.ops.kv_append(context.stream, context.batch,
                               {memory_.keys, memory_.values, k, v, context.pages});
}

gpu::Status Attention::select(StepContext& context, ConstMatrix qk,
                              gpu::MatrixView<std::int32_t> blocks) const {
  const std::int32_t dim = indexer_->head_dim;
  const std::int32_t query_width = indexer_->num_heads * dim;
  Scratch scratch(context);
  const Matrix q = scratch.matrix(query_width, "qsa q");
  const Matrix scores = scratch.matrix(DType::f32, context.max_seq_len / indexer_->ratio, "qsa scores");
  RETURN_IF_ERROR(scratch.status());

  const ConstMatrix raw = qk.columns(Elements{query_width}, Elements{dim});
  context.show(layer_, "index_key", raw);
  kernels::QsaIndexAppendArgs append;
  append.closed = memory_.index_keys;
  append.ring = memory_.index_ring;
  append.raw = raw;
  append.ring_rows = memory_.index_ring_rows;
  append.ratio = indexer_->ratio;
  append.pages = context.pages;
  append.k_norm = weights_.indexer->k_norm;
  append.norm_weight = norm_weight_;
  append.eps = eps_;
  append.rope = rope_;
  RETURN_IF_ERROR(context.ops.qsa_index_append(context.stream, context.batch, append));

  // A saving, not a decision: rows at or below the bound take every position whatever `blocks` holds.
  if (context.batch.max_position + 1 > indexer_->bound()) {
    RETURN_IF_ERROR(rotate(context, q, qk.columns(Elements{0}, Elements{query_width}), indexer_->num_heads,
                           dim, weights_.indexer->q_norm));
    RETURN_IF_ERROR(context.ops.qsa_select(context.stream, context.batch,
                                           {blocks, scores, q, memory_.index_keys, indexer_->num_heads, dim,
                                            indexer_->ratio, indexer_->top_blocks(), context.pages}));
    context.show(layer_, "blocks",
                 {reinterpret_cast<const std::byte*>(blocks.base), DType::i32, blocks.rows, blocks.cols,
                  blocks.pitch});
  }
  return gpu::Done{};
}

void Attention::append_state(StateSlot slot, std::vector<StateSpan>& spans) const {
  if (!indexer_) return;
  const Rows ring{memory_.index_ring_rows};
  spans.push_back(rows_span(memory_.index_ring, ring * slot, ring));
}

}  // namespace model
