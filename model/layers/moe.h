#pragma once

#include "model/arch/model_weights.h"
#include "model/layers/layer.h"
#include "model/layers/mlp.h"

namespace model {

/// Routed experts, plus one shared expert behind a sigmoid gate where the model has one (model-spec 2.6).
class Moe final : public Layer {
 public:
  Moe(const ModelConfig& config, const MoeWeights& weights);
  gpu::Status forward(StepContext& context, ConstMatrix x, Matrix y) const override;

 private:
  gpu::Status write_routed(StepContext& context, ConstMatrix x, Matrix y) const;
  gpu::Status add_shared(StepContext& context, const Mlp& expert, ConstMatrix x, Matrix y) const;

  const MoeWeights& weights_;
  MoeConfig config_;
  std::int32_t hidden_size_;
  std::optional<Mlp> shared_;
};

}  // namespace model
