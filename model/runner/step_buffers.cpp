#include "model/runner/step_buffers.h"

#include "model/layers/decoder.h"
#include "model/layers/ple.h"
#include "model/runner/null_ops.h"

namespace model {

StepLimits step_limits(const ServePlan& plan) {
  StepLimits limits;
  limits.rows = plan.max_step_rows;
  limits.prefill_rows = plan.chunk_width;
  limits.feeds = plan.num_state_slots;
  limits.logits_rows = plan.max_batch_size * (1 + plan.num_drafts) + plan.prompt_logits_rows;
  limits.new_pages = std::int64_t{plan.num_state_slots} * plan.pages_per_sequence;
  return limits;
}

gpu::Bytes staging_bytes(const StepLimits& limits) {
  constexpr std::int64_t kIndex = sizeof(std::int32_t);
  constexpr std::int64_t kSections = 20, kPadding = 16;  // what aligning each section may cost
  return {3 * kIndex * limits.rows +                     // slots, positions, ids
          3 * kIndex * limits.feeds +                    // segments
          limits.new_pages * kIndex +
          limits.logits_rows * (kIndex + std::int64_t{sizeof(kernels::RowSampling)}) +
          limits.feeds * (kMaxBiases * std::int64_t{sizeof(kernels::TokenBias)} + kMaxBans * kIndex) +
          kSections * kPadding};
}

gpu::Result<StepBuffers, gpu::DeviceError> take_step_buffers(gpu::Arena& arena, const ModelConfig& config,
                                                             const ServePlan& plan) {
  const StepLimits limits = step_limits(plan);
  StepBuffers buffers;
  const auto matrix = [&](gpu::Matrix& view, gpu::DType dtype, std::int32_t rows, std::int32_t cols,
                          const char* what) -> gpu::Status {
    auto taken = arena.matrix(dtype, gpu::Rows{rows}, gpu::Elements{cols}, what);
    if (!taken.ok()) return std::move(taken).error();
    view = *taken;
    return gpu::Done{};
  };
  auto staging = arena.take(staging_bytes(limits), "step upload");
  if (!staging.ok()) return std::move(staging).error();
  buffers.staging = *staging;
  RETURN_IF_ERROR(
      matrix(buffers.hidden, plan.activation, limits.rows, Decoder::residual_width(config), "residual"));
  RETURN_IF_ERROR(matrix(buffers.logits, gpu::DType::f32, limits.logits_rows, config.vocab_size, "logits"));
  RETURN_IF_ERROR(
      matrix(buffers.sample_scratch, gpu::DType::f32, limits.logits_rows, config.vocab_size, "sampling"));
  const gpu::Elements sampled{limits.logits_rows};
  auto rows = arena.take(gpu::bytes_of<kernels::SampledRow>(sampled), "sampled rows");
  if (!rows.ok()) return std::move(rows).error();
  buffers.sampled = {reinterpret_cast<kernels::SampledRow*>(*rows), sampled};
  return buffers;
}

namespace {

/// Runs layers on operations that do nothing, to see what they take of an arena without memory. Every row
/// stands at the last position.
class DryRun {
 public:
  explicit DryRun(const ServePlan& plan)
      : rows_{step_limits(plan).rows},
        context_{*stream_, *ops_, measured_.arena(), plan.activation, rows_, {}, {}, {}, plan.max_seq_len} {
    context_.batch.num_rows = rows_;
    context_.batch.max_position = plan.max_seq_len - 1;
  }
  gpu::Arena& arena() { return measured_.arena(); }
  StepContext& context() { return context_; }
  gpu::Bytes high_water() const { return measured_.high_water(); }

 private:
  MeasuringArena measured_;
  std::unique_ptr<kernels::Ops> ops_ = make_null_ops();
  std::unique_ptr<gpu::Stream> stream_ = make_null_stream();
  gpu::Rows rows_;
  StepContext context_;
};

}  // namespace

gpu::Bytes step_arena_bytes(const ModelConfig& config, const ServePlan& plan) {
  const ModelWeights weights = skeleton_weights(config);
  const std::vector<LayerMemory> memory(config.layers.size());
  const Decoder decoder(config, weights, memory, {});
  DryRun dry(plan);
  const auto buffers = take_step_buffers(dry.arena(), config, plan);
  FormRows form;
  form.batch = dry.context().batch;
  form.logits_rows.size = gpu::Elements{step_limits(plan).logits_rows};
  if (buffers.ok()) {
    [[maybe_unused]] const auto run =
        decoder.forward(dry.context(), {&form, 1}, buffers->hidden, buffers->logits);
    assert(run.ok());
  }
  return dry.high_water();
}

gpu::Bytes ple_scratch_bytes(const ModelConfig& config, const ServePlan& plan) {
  if (!config.ple) return {};
  const PleWeights weights;
  const Ple ple(config, config.ple->layers.front(), weights, {}, {});
  DryRun dry(plan);
  Scratch scratch(dry.context());
  const Matrix added = scratch.matrix(Decoder::residual_width(config), "ple out");
  [[maybe_unused]] const auto run = ple.forward(dry.context(), added, added);
  assert(run.ok());
  return dry.high_water();
}

}  // namespace model
