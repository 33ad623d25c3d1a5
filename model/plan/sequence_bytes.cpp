#include "model/plan/sequence_bytes.h"

#include <algorithm>

#include "gpu/arena.h"
#include "model/plan/serve_plan.h"

namespace model {
namespace {

/// A row of a cache or ring: pitches are multiples of 16 bytes.
std::int64_t row_bytes(std::int64_t cols, std::int64_t element) { return gpu::round_up(cols * element, 16); }

std::int64_t count_layers(const ModelConfig& config, LayerKind kind) {
  return std::count(config.layers.begin(), config.layers.end(), kind);
}

/// Sizes that several parts are made of. Draft layers count while there are drafts.
struct Sizes {
  std::int64_t element, drafts, sparse_layers, dense_layers, stream_row;

  Sizes(const ModelConfig& config, const ServePlan& plan)
      : element(gpu::size_of(plan.activation)), drafts(plan.num_drafts) {
    const std::int64_t mtp = drafts > 0 && config.mtp ? config.mtp->num_layers : 0;
    sparse_layers = count_layers(config, LayerKind::sparse_attention) + (config.indexer ? mtp : 0);
    dense_layers = count_layers(config, LayerKind::full_attention) + (config.indexer ? 0 : mtp);
    const std::int64_t streams = config.hyper_connection ? config.hyper_connection->num_streams : 1;
    stream_row = row_bytes(streams * config.hidden_size, element);
  }
};

std::int64_t page_kv(const ModelConfig& config, const ServePlan& plan, const Sizes& sizes) {
  const std::int64_t row = row_bytes(std::int64_t{config.num_kv_heads} * config.head_dim, sizes.element);
  return (sizes.sparse_layers + sizes.dense_layers) * 2 * plan.block_size * row;
}

std::int64_t page_index(const ModelConfig& config, const ServePlan& plan, const Sizes& sizes) {
  if (!config.indexer) return 0;
  return sizes.sparse_layers * (plan.block_size / config.indexer->ratio) *
         row_bytes(config.indexer->head_dim, sizes.element);
}

/// Rings hold their window and one row a draft, so that a rejected draft overwrites nothing.
std::int64_t index_ring(const ModelConfig& config, const ServePlan& plan, const Sizes& sizes) {
  if (!config.indexer) return 0;
  return sizes.sparse_layers * plan.qsa_ring_rows * row_bytes(config.indexer->head_dim, sizes.element);
}

std::int64_t gdn_state(const ModelConfig& config, const Sizes& sizes) {
  if (!config.gdn) return 0;
  const GdnConfig& gdn = *config.gdn;
  const std::int64_t state = std::int64_t{4} * gdn.num_v_heads * gdn.k_dim * gdn.v_dim;
  const std::int64_t conv = (gdn.conv_kernel - 1 + sizes.drafts) * row_bytes(gdn.conv_width(), sizes.element);
  return count_layers(config, LayerKind::linear_attention) * (state + conv);
}

std::int64_t gdn_replay(const ModelConfig& config, const Sizes& sizes) {
  if (!config.gdn) return 0;
  const GdnConfig& gdn = *config.gdn;
  const std::int64_t values = gdn.num_v_heads + gdn.key_width() + gdn.value_width();
  return count_layers(config, LayerKind::linear_attention) * sizes.drafts * 4 * values;
}

std::int64_t ple_ring(const ModelConfig& config, const Sizes& sizes) {
  if (!config.ple) return 0;
  return std::ssize(config.ple->layers) * (config.ple->conv_history() + sizes.drafts) * sizes.stream_row;
}

std::int64_t tables(const ServePlan& plan) {
  return 2 * row_bytes(plan.max_seq_len, 4) + row_bytes(plan.pages_per_sequence, 4) +
         row_bytes(plan.vocab_size, 4) + 2 * 4;
}

}  // namespace

SequenceBytes sequence_bytes(const ModelConfig& config, const ServePlan& plan) {
  const Sizes sizes(config, plan);
  SequenceBytes bytes;
  bytes.kv = {plan.pages_per_sequence * page_kv(config, plan, sizes)};
  bytes.index = {plan.pages_per_sequence * page_index(config, plan, sizes) + index_ring(config, plan, sizes)};
  bytes.gdn = {gdn_state(config, sizes) + gdn_replay(config, sizes)};
  bytes.ple = {ple_ring(config, sizes)};
  bytes.tables = {tables(plan)};
  if (sizes.drafts > 0) bytes.drafts = {(1 + sizes.drafts) * sizes.stream_row};
  return bytes;
}

gpu::Bytes page_bytes(const ModelConfig& config, const ServePlan& plan) {
  const Sizes sizes(config, plan);
  return {page_kv(config, plan, sizes) + page_index(config, plan, sizes)};
}

gpu::Bytes slot_bytes(const ModelConfig& config, const ServePlan& plan) {
  return sequence_bytes(config, plan).total() - page_bytes(config, plan) * plan.pages_per_sequence;
}

gpu::Bytes snapshot_bytes(const ModelConfig& config, const ServePlan& plan) {
  const Sizes sizes(config, plan);
  const std::int64_t draft_row = sizes.drafts > 0 ? sizes.stream_row : 0;
  return {gpu::round_up(
      gdn_state(config, sizes) + index_ring(config, plan, sizes) + ple_ring(config, sizes) + draft_row,
      gpu::Arena::kAlignment)};
}

}  // namespace model
