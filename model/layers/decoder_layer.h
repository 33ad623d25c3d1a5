#pragma once

#include <memory>

#include "model/cache/kv_layout.h"
#include "model/layers/hyper_connection.h"
#include "model/layers/layer.h"

namespace model {

/// One layer of the decoder: changes the residual in place. The two families differ in how a block hangs on
/// the residual.
class DecoderLayer {
 public:
  virtual ~DecoderLayer() = default;
  virtual gpu::Status forward(StepContext& context, Matrix hidden) const = 0;
  virtual void append_state(StateSlot slot, std::vector<StateSpan>& spans) const = 0;
};

/// model-spec 2.1: C streams; each block between a mix and an injection; n-gram memory first where the layer
/// has it.
std::unique_ptr<DecoderLayer> make_stream_layer(const ModelConfig& config, LayerIndex layer,
                                                const LayerWeights& weights, const LayerMemory& memory,
                                                kernels::Rope rope);
/// model-spec 2.7, 2.8: h += block(norm(h)), twice.
std::unique_ptr<DecoderLayer> make_prenorm_layer(const ModelConfig& config, LayerIndex layer,
                                                 const LayerWeights& weights, const LayerMemory& memory,
                                                 kernels::Rope rope);

}  // namespace model
