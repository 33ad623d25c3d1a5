#pragma once

#include "model/arch/model_weights.h"
#include "model/layers/layer.h"

namespace model {

/// Gated residual over C streams (model-spec 2.2): `mix` makes a block's input from the streams and the
/// weights with which its output goes back into each; `inject` puts it there. A final mixer has no injection.
class HyperConnection {
 public:
  HyperConnection(const ModelConfig& config, const HyperConnectionWeights& weights);

  std::int32_t num_streams() const { return num_streams_; }
  /// streams [rows, C*H] → x [rows, H], and inject [rows, C] where the weights have one (else it is not
  /// written).
  gpu::Status mix(StepContext& context, ConstMatrix streams, Matrix x, Matrix inject) const;
  gpu::Status inject(StepContext& context, Matrix streams, ConstMatrix y, ConstMatrix inject) const;

 private:
  const HyperConnectionWeights& weights_;
  std::int32_t hidden_size_, num_streams_, low_rank_;
  kernels::NormWeight norm_weight_;
  float eps_;
};

}  // namespace model
