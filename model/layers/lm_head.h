#pragma once

#include <optional>

#include "model/arch/model_weights.h"
#include "model/layers/hyper_connection.h"
#include "model/layers/layer.h"

namespace model {

/// Final mixer or norm, then the vocabulary, for those rows of one form whose logits somebody needs.
class LmHead {
 public:
  LmHead(const ModelConfig& config, const ModelWeights& weights);
  /// `context` speaks of the form's rows; `rows` (device) picks among them; logits f32 [rows, vocab]. Scratch
  /// is taken for `capacity` rows.
  gpu::Status forward(const StepContext& context, ConstMatrix hidden,
                      gpu::VectorView<const std::int32_t> rows, Rows capacity, Matrix logits) const;

 private:
  const ModelWeights& weights_;
  std::optional<HyperConnection> mixer_;
  std::int32_t hidden_size_;
  kernels::NormWeight norm_weight_;
  float eps_;
};

}  // namespace model
