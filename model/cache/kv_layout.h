#pragma once

#include <memory>
#include <vector>

#include "gpu/arena.h"
#include "model/arch/model_config.h"
#include "model/plan/serve_plan.h"

namespace model {

using gpu::Matrix;

class PleRows;

/// Where a model's memory of tokens lies on the device. Page memory is shared by all sequences and cut by
/// page ids (accounting: PagePool); slot memory is cut by state slots. Views only; the buffers belong to the
/// Runner.
struct AttentionMemory {
  Matrix keys, values;  ///< [num_pages*block, kv_heads*head_dim]: page memory
  Matrix index_keys;    ///< [num_pages*block/ratio, dim], the closed blocks' keys: page memory; empty without
                        ///< an indexer
  Matrix index_ring;    ///< [num_slots*ring_rows, dim], raw keys
  std::int32_t index_ring_rows = 0;
};
struct RecurrentMemory {
  Matrix conv_ring;  ///< [num_slots*ring_rows, conv_width], raw convolution inputs
  std::int32_t conv_ring_rows = 0;
  Matrix state;  ///< f32 [num_slots*value_heads, k_dim*v_dim]
};
struct PleMemory {
  Matrix conv_ring;  ///< [num_slots*ring_rows, C*H], normed convolution inputs
  std::int32_t conv_ring_rows = 0;
  PleRows* stored_rows = nullptr;  ///< null: the table is resident
};
/// Constants of the n-gram hash, on the device.
struct NgramHash {
  gpu::VectorView<const std::int64_t> multipliers, sizes, offsets;
};
struct LayerMemory {
  AttentionMemory attention;
  RecurrentMemory recurrent;
  PleMemory ple;
  NgramHash ngram_hash;
};

/// Takes every layer's page memory, or slot memory, from an arena of its own. Rings hold the history plus one
/// row a draft.
gpu::Status take_page_memory(const ModelConfig& config, const ServePlan& plan, gpu::Arena& arena,
                             std::vector<LayerMemory>& layers);
gpu::Status take_slot_memory(const ModelConfig& config, const ServePlan& plan, gpu::Arena& arena,
                             std::vector<LayerMemory>& layers);
/// What they take, to the byte.
gpu::Bytes page_memory_bytes(const ModelConfig& config, const ServePlan& plan);
gpu::Bytes slot_memory_bytes(const ModelConfig& config, const ServePlan& plan);

/// An arena over no memory: taking from it measures. Nothing may be read or written through what it gives.
class MeasuringArena {
 public:
  MeasuringArena();
  gpu::Arena& arena() { return arena_; }
  gpu::Bytes high_water() const { return arena_.high_water(); }

 private:
  std::unique_ptr<gpu::Device> device_;  // gives addresses, and takes them back
  gpu::Arena arena_;
};

}  // namespace model
