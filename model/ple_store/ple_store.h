#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/plan/serve_plan.h"
#include "model/ple_store/layer_rows.h"
#include "model/runner/step_plan.h"

namespace model {

/// The n-gram tables of a model that stay in its files: every table row that a step needs is known when its
/// plan is, since ids are; so rows are hashed here, and read while the layers before the first table run.
/// Holds the ids of every (slot, position) that was fed: whatever position is fed again, after a rollback or
/// a preemption, is simply written again, and nothing here is saved with a sequence. Owned and called by the
/// Runner's thread; the reader has threads of its own.
class PleStore {
 public:
  static Result<std::unique_ptr<PleStore>, LoadError> open(const ModelConfig& config,
                                                           const ModelWeights& weights, const ServePlan& plan,
                                                           gpu::FileReaderOptions options = {});

  /// Null: the layer has no table.
  PleRows* rows_of(LayerIndex layer) const;
  /// How rows are read, for the log.
  std::string description() const;

  /// Rows of these feeds, which were accepted, are pinned and on their way. A refusal leaves nothing behind.
  gpu::Status begin(std::span<const Feed* const> feeds);
  /// After the step, whatever became of it: waits for reads that nobody waited for, and lets go of the pins.
  void finish();
  /// Why a feed of the last step did not get its rows; valid after finish().
  std::optional<std::string> failure_of(std::size_t feed) const;
  /// Of the last step, all layers together.
  RowCounts counts() const;

  /// Drill: in the next step that feeds this sequence (none: the next that feeds any), the first row that it
  /// needs is read, whether it is there or not, and cannot be.
  void fail_next_read(std::optional<SequenceId> sequence) { drill_ = sequence.value_or(kAnySequence); }

 private:
  static constexpr SequenceId kAnySequence = ~SequenceId{0};
  struct Layer {
    LayerIndex index = 0;
    std::unique_ptr<LayerRows> rows;
  };
  PleStore() = default;
  void lay_out(std::span<const Feed* const> feeds);
  std::optional<std::size_t> drilled_feed(std::span<const Feed* const> feeds);

  std::int32_t max_seq_len_ = 0;
  std::unique_ptr<std::int32_t[]> ids_;  // [num_slots, max_seq_len]; read where written only
  std::vector<Layer> layers_;
  StepRows rows_;
  std::optional<SequenceId> drill_;
  std::string description_;
  std::unique_ptr<gpu::FileReader> reader_;  // goes first: its threads write into the layers' slots
};

/// Host memory of the store, for the plan. `row_bytes`: of a row in the files.
gpu::Bytes ple_store_bytes(const ModelConfig& config, const ServePlan& plan, gpu::Bytes row_bytes);

}  // namespace model
