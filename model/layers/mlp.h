#pragma once

#include "model/arch/model_weights.h"
#include "model/layers/layer.h"

namespace model {

/// down( silu(gate x) * (up x) ).
class Mlp final : public Layer {
 public:
  Mlp(const MlpWeights& weights, std::int32_t intermediate)
      : weights_(weights), intermediate_(intermediate) {}
  gpu::Status forward(StepContext& context, ConstMatrix x, Matrix y) const override;

 private:
  const MlpWeights& weights_;
  std::int32_t intermediate_;
};

}  // namespace model
