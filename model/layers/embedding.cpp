#include "model/layers/embedding.h"

namespace model {

Embedding::Embedding(const ModelConfig& config, const Weight& table)
    : table_(table),
      hidden_size_(config.hidden_size),
      num_streams_(config.hyper_connection ? config.hyper_connection->num_streams : 0) {}

gpu::Status Embedding::forward(StepContext& context, Matrix hidden) const {
  if (num_streams_ == 0) {
    RETURN_IF_ERROR(context.ops.embedding(context.stream, context.batch, {hidden, table_, context.ids}));
    context.show(-1, "embed", hidden);
    return gpu::Done{};
  }
  Scratch scratch(context);
  const Matrix x = scratch.matrix(hidden_size_, "embedding");
  RETURN_IF_ERROR(scratch.status());
  RETURN_IF_ERROR(context.ops.embedding(context.stream, context.batch, {x, table_, context.ids}));
  context.show(-1, "embed", x);
  return context.ops.repeat_streams(context.stream, {hidden, x, num_streams_});
}

}  // namespace model
