#pragma once

#include "model/arch/model_weights.h"
#include "model/cache/kv_layout.h"
#include "model/layers/layer.h"

namespace model {

/// Where the n-gram rows of a layer come from: a table on the device, or one that stays in its files
/// (ple_store/). Called by the Runner's thread.
class PleRows {
 public:
  virtual ~PleRows() = default;
  /// y [rows of the context's batch, embed_dim]: for each row of the batch its table rows, head by head.
  /// Enqueued; what it waits for on the host is this step's rows and nothing else.
  virtual gpu::Status gather(StepContext& context, Matrix y) = 0;
};

/// The table lies on the device; ids are hashed there.
class ResidentPleRows final : public PleRows {
 public:
  ResidentPleRows(const PleConfig& config, LayerIndex layer, const PleWeights& weights, const NgramHash& hash)
      : config_(config), layer_(layer), weights_(weights), hash_(hash) {}
  gpu::Status gather(StepContext& context, Matrix y) override;

 private:
  PleConfig config_;
  LayerIndex layer_;
  const PleWeights& weights_;
  NgramHash hash_;
};

}  // namespace model
