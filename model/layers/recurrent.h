#pragma once

#include "model/arch/model_weights.h"
#include "model/cache/kv_layout.h"
#include "model/layers/layer.h"

namespace model {

/// Gated delta net (model-spec 2.4): convolution with history, then the recurrence in the form of its rows. A
/// slot's state is the ring of raw convolution inputs and S.
class Recurrent final : public StatefulLayer {
 public:
  Recurrent(const ModelConfig& config, const GdnWeights& weights, const RecurrentMemory& memory);
  gpu::Status forward(StepContext& context, ConstMatrix x, Matrix y) const override;
  void append_state(StateSlot slot, std::vector<StateSpan>& spans) const override;

 private:
  const GdnWeights& weights_;
  GdnConfig config_;
  float eps_;
  RecurrentMemory memory_;
};

}  // namespace model
