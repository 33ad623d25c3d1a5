#pragma once

#include <vector>

#include "gpu/device.h"
#include "gpu/stream.h"
#include "kernels/sampling.h"
#include "model/cache/kv_layout.h"

namespace model {

/// The device memory of one model besides its weights: pages, slots, ids and page tables, and the arena of a
/// step.
struct ModelMemory {
  gpu::Arena pages, slots, tables;
  gpu::Arena step;
  std::vector<LayerMemory> layers;
  gpu::MatrixView<std::int32_t>
      ids;  ///< [num_slots, max_seq_len]: the id at each position of a slot's sequence
  gpu::MatrixView<std::int32_t> page_table;  ///< [num_slots, pages_per_sequence]
  kernels::PenaltyCounts penalties;
};
/// Once, after they were allocated.
gpu::Status clear_penalty_counts(gpu::Stream& stream, const ModelMemory& memory);
gpu::Result<ModelMemory, gpu::DeviceError> allocate_model_memory(gpu::Device& device,
                                                                 const ModelConfig& config,
                                                                 const ServePlan& plan);

}  // namespace model
