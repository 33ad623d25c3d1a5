#pragma once

#include "model/arch/model_weights.h"
#include "model/cache/kv_layout.h"
#include "model/layers/layer.h"

namespace model {

/// The n-gram memory of a layer (model-spec 2.5): hashes the last ids, gathers table rows, gates them against
/// the streams and adds a dilated convolution. x and y are the C streams, [rows, C*H]; the caller adds y to
/// them. A slot's state is the ring of convolution inputs: the ids themselves lie on the device for every
/// position, so there is no n-gram history to keep.
class Ple final : public StatefulLayer {
 public:
  Ple(const ModelConfig& config, LayerIndex layer, const PleWeights& weights, const PleMemory& memory,
      const NgramHash& hash);
  gpu::Status forward(StepContext& context, ConstMatrix x, Matrix y) const override;
  void append_state(StateSlot slot, std::vector<StateSpan>& spans) const override;

 private:
  gpu::Status look_up(StepContext& context, Matrix embedding) const;
  gpu::Status norm(StepContext& context, Matrix y, ConstMatrix x, gpu::ConstVector w) const;

  const PleWeights& weights_;
  LayerIndex layer_;
  PleMemory memory_;
  NgramHash hash_;
  PleConfig config_;
  std::int32_t hidden_size_, num_streams_;
  kernels::NormWeight norm_weight_;
  float eps_;
};

}  // namespace model
