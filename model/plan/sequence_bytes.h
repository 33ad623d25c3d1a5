#pragma once

#include <cstdint>

#include "gpu/units.h"

namespace model {

struct ModelConfig;
struct ServePlan;

/// Bytes of one sequence, by what remembers it. Formulas of (config, plan) alone; that they are what the
/// layers take is a test.
struct SequenceBytes {
  gpu::Bytes kv;  ///< keys and values of its pages
  gpu::Bytes
      index;       ///< sparse-attention keys: those of closed blocks, in its pages, and the open block's ring
  gpu::Bytes gdn;  ///< recurrent states, convolution rings, drafts' replay log
  gpu::Bytes ple;  ///< convolution rings
  gpu::Bytes tables;  ///< ids, page table, penalty counts
  gpu::Bytes drafts;  ///< stream rows that the draft layer still needs

  gpu::Bytes total() const { return kv + index + gdn + ple + tables + drafts; }
};
SequenceBytes sequence_bytes(const ModelConfig& config, const ServePlan& plan);

/// Of one page in all layers: keys, values, and the index keys of the blocks closed in it.
gpu::Bytes page_bytes(const ModelConfig& config, const ServePlan& plan);
/// Of one state slot: all of a sequence that does not lie in pages.
gpu::Bytes slot_bytes(const ModelConfig& config, const ServePlan& plan);
/// Of one snapshot: what a slot remembers of fed tokens (ids, pages and counts are kept or made anew).
gpu::Bytes snapshot_bytes(const ModelConfig& config, const ServePlan& plan);

}  // namespace model
