#pragma once

#include "gpu/arena.h"
#include "kernels/sampling.h"
#include "model/arch/model_config.h"
#include "model/plan/serve_plan.h"
#include "model/sampling/sampling_limits.h"

namespace model {

/// Capacities of one step, all of them from the plan.
struct StepLimits {
  std::int32_t rows = 0;  ///< of both forms, gap included
  std::int32_t prefill_rows = 0;
  std::int32_t feeds = 0;  ///< a slot is fed at most once a step
  std::int32_t logits_rows = 0;
  std::int64_t new_pages = 0;
};
StepLimits step_limits(const ServePlan& plan);

/// Bytes of the packed upload at its largest.
gpu::Bytes staging_bytes(const StepLimits& limits);

/// What a step keeps in the arena from its beginning to its end.
struct StepBuffers {
  std::byte* staging = nullptr;
  gpu::Matrix hidden;          ///< [rows, residual width]
  gpu::Matrix logits;          ///< f32 [logits rows, vocab]
  gpu::Matrix sample_scratch;  ///< the same
  gpu::VectorView<kernels::SampledRow> sampled;
};
gpu::Result<StepBuffers, gpu::DeviceError> take_step_buffers(gpu::Arena& arena, const ModelConfig& config,
                                                             const ServePlan& plan);

/// The arena of a step, to the byte: runs the forward pass itself on operations that do nothing.
gpu::Bytes step_arena_bytes(const ModelConfig& config, const ServePlan& plan);
/// What of it a PLE layer takes while it adds its rows; zero in a model without.
gpu::Bytes ple_scratch_bytes(const ModelConfig& config, const ServePlan& plan);

}  // namespace model
