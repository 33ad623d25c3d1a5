#pragma once

#include "model/arch/model_weights.h"
#include "model/cache/kv_layout.h"
#include "model/layers/layer.h"

namespace model {

/// Grouped-query attention over paged keys and values, with an optional output gate, head norms and sparse
/// selection (model-spec 2.3, 2.8 and 4). Which positions a row attends to is decided per row from its own
/// length, never from the batch. A slot's state beyond its pages is the ring of raw index keys; without an
/// indexer there is none.
class Attention final : public StatefulLayer {
 public:
  Attention(const ModelConfig& config, LayerIndex layer, const AttentionWeights& weights,
            const AttentionMemory& memory, kernels::Rope rope);
  gpu::Status forward(StepContext& context, ConstMatrix x, Matrix y) const override;
  void append_state(StateSlot slot, std::vector<StateSpan>& spans) const override;

 private:
  gpu::Status rotate(StepContext& context, Matrix y, ConstMatrix x, std::int32_t heads,
                     std::int32_t head_stride, gpu::ConstVector norm) const;
  gpu::Status append_keys(StepContext& context, Matrix k, ConstMatrix v) const;
  gpu::Status select(StepContext& context, ConstMatrix qk, gpu::MatrixView<std::int32_t> blocks) const;

  const AttentionWeights& weights_;
  LayerIndex layer_;
  AttentionMemory memory_;
  kernels::Rope rope_;
  std::optional<IndexerConfig> indexer_;
  std::int32_t num_heads_, num_kv_heads_, head_dim_;
  bool output_gate_;
  kernels::NormWeight norm_weight_;
  float eps_;
};

}  // namespace model
