#include "model/layers/lm_head.h"

namespace model {

LmHead::LmHead(const ModelConfig& config, const ModelWeights& weights)
    : weights_(weights),
      hidden_size_(config.hidden_size),
      norm_weight_(config.norm_weight),
      eps_(config.rms_norm_eps) {
  if (weights.mixer) mixer_.emplace(config, *weights.mixer);
}

gpu::Status LmHead::forward(const StepContext& context, ConstMatrix hidden,
                            gpu::VectorView<const std::int32_t> rows, Rows capacity, Matrix logits) const {
  StepContext gathered = context;
  gathered.capacity = capacity;
  gathered.batch = {};
  gathered.batch.form = context.batch.form;
  gathered.batch.num_rows = Rows{rows.size.n};

  Scratch scratch(gathered);
  const Matrix last = scratch.matrix(static_cast<std::int32_t>(hidden.cols.n), "head rows");
  const Matrix mixed = scratch.matrix(hidden_size_, "head mixed");
  RETURN_IF_ERROR(scratch.status());
  RETURN_IF_ERROR(context.ops.gather_rows(context.stream, {last, hidden, rows}));
  if (mixer_) {
    RETURN_IF_ERROR(mixer_->mix(gathered, last, mixed, {}));
  } else {
    RETURN_IF_ERROR(context.ops.rms_norm(
        context.stream, {mixed, last, weights_.final_norm, Elements{hidden_size_}, norm_weight_, eps_}));
  }
  context.show(-1, "mixed", mixed);
  RETURN_IF_ERROR(project(gathered, logits, mixed, weights_.head, "lm head"));
  context.show(-1, "logits", logits);
  return gpu::Done{};
}

}  // namespace model
