#pragma once

#include <memory>
#include <span>
#include <vector>

#include "model/layers/decoder_layer.h"
#include "model/layers/embedding.h"
#include "model/layers/lm_head.h"

namespace model {

/// The rows of one form in a step: where they lie in the residual, and which of them end in logits.
struct FormRows {
  kernels::RowBatch batch;
  Rows first_row;  ///< in the residual: 0, or the decode form's multiple of 64
  gpu::VectorView<const std::int32_t> logits_rows;  ///< counted from the form's first row
  Rows first_logits_row;                            ///< in the logits
};

/// The whole model, from ids to logits. Layer by layer, and within a layer form by form: a projection runs
/// once per form.
class Decoder {
 public:
  /// `weights` outlives the decoder.
  Decoder(const ModelConfig& config, const ModelWeights& weights, std::span<const LayerMemory> memory,
          kernels::Rope rope);

  /// `context` without a batch. hidden: [step rows, residual width]; logits: f32 [logits rows, vocab].
  gpu::Status forward(const StepContext& context, std::span<const FormRows> forms, Matrix hidden,
                      Matrix logits) const;
  std::vector<StateSpan> state_of(StateSlot slot) const;

  /// Width of the residual: one vector, or C streams of it.
  static std::int32_t residual_width(const ModelConfig& config);

 private:
  Embedding embedding_;
  std::vector<std::unique_ptr<DecoderLayer>> layers_;
  LmHead head_;
};

/// Weights of the right shape of presence (which layer has which parts) and no content: enough to build a
/// decoder that is measured.
ModelWeights skeleton_weights(const ModelConfig& config);

}  // namespace model
