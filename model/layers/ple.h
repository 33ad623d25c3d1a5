#pragma once

#include <memory>

#include "model/layers/ple_rows.h"

namespace model {

/// The n-gram memory of a layer (model-spec 2.5): gathers the table rows of the last ids, gates them against
/// the streams and adds a dilated convolution. x and y are the C streams, [rows, C*H]; the caller adds y to
/// them. A slot's state is the ring of convolution inputs: the ids themselves lie on the device for every
/// position, so there is no n-gram history to keep.
class Ple final : public StatefulLayer {
 public:
  /// `memory.stored_rows`, where there are such, outlive the layer.
  Ple(const ModelConfig& config, LayerIndex layer, const PleWeights& weights, const PleMemory& memory,
      const NgramHash& hash);
  gpu::Status forward(StepContext& context, ConstMatrix x, Matrix y) const override;
  void append_state(StateSlot slot, std::vector<StateSpan>& spans) const override;

 private:
  gpu::Status norm(StepContext& context, Matrix y, ConstMatrix x, gpu::ConstVector w) const;

  const PleWeights& weights_;
  PleMemory memory_;
  std::unique_ptr<PleRows> resident_rows_;  // null: the table stays in its files
  PleRows& rows_;
  PleConfig config_;
  std::int32_t hidden_size_, num_streams_;
  kernels::NormWeight norm_weight_;
  float eps_;
};

}  // namespace model
