#include "model/layers/ple_rows.h"

namespace model {

gpu::Status ResidentPleRows::gather(StepContext& context, Matrix y) {
  Scratch scratch(context);
  const Matrix ids = scratch.matrix(DType::i64, config_.num_heads(), "ngram rows");
  RETURN_IF_ERROR(scratch.status());
  const auto rows = gpu::typed<std::int64_t>(ids);
  RETURN_IF_ERROR(context.ops.ngram_rows(context.stream, context.batch,
                                         {rows, context.ids, hash_.multipliers, hash_.sizes, hash_.offsets,
                                          config_.ngram_size, config_.heads_per_ngram, config_.eos}));
  context.show(layer_, "ngram_rows", ids);
  return context.ops.gather_table(context.stream, {y, weights_.table, rows});
}

}  // namespace model
