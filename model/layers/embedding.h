#pragma once

#include "model/arch/model_weights.h"
#include "model/layers/layer.h"

namespace model {

/// Token ids of the batch's rows → the residual the first layer reads: [rows, H], or that vector in every
/// stream.
class Embedding {
 public:
  Embedding(const ModelConfig& config, const Weight& table);
  gpu::Status forward(StepContext& context, Matrix hidden) const;

 private:
  const Weight& table_;
  std::int32_t hidden_size_;
  std::int32_t num_streams_;  ///< 0: a plain residual
};

}  // namespace model
