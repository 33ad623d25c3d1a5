#pragma once

#include <memory>

#include "gpu/device.h"
#include "kernels/ops.h"
#include "model/arch/model_weights.h"
#include "model/plan/serve_plan.h"
#include "model/runner/step_plan.h"

namespace model {

/// Reads intermediate values of a forward pass, for tests: named matrices after they were computed, once per
/// form batch. Names: "embed", "layer{i}", "mixed", "layer{i}.ngram_rows", "layer{i}.blocks",
/// "layer{i}.index_key", "logits", …
class ForwardProbe {
 public:
  virtual ~ForwardProbe() = default;
  virtual void see(std::string_view name, gpu::ConstMatrix value, const kernels::RowBatch& batch) = 0;
};

class StepDrill;

/// Owns device memory of one model: weights, pages, state slots, arena. Runs step plans. One thread.
class Runner : public StepExecutor {
 public:
  static Result<std::unique_ptr<Runner>, LoadError> create(std::shared_ptr<gpu::Device> device,
                                                           std::unique_ptr<gpu::Stream> stream,
                                                           std::unique_ptr<kernels::Ops> ops,
                                                           ModelConfig config, ModelWeights weights,
                                                           const ServePlan& plan);
  virtual void set_probe(ForwardProbe* probe) = 0;  ///< null: none

  /// Device state of a slot as host values, for tests and canaries: name → f32 values. Names:
  /// "layer{i}.conv", "layer{i}.recurrent", "layer{i}.ple_conv", "layer{i}.keys", "layer{i}.values",
  /// "layer{i}.index_ring", "layer{i}.index_keys"; positions ascending up to `fed`.
  virtual std::vector<std::pair<std::string, std::vector<float>>> read_state(StateSlot slot,
                                                                             Position fed) = 0;

  /// Faults that steps meet on purpose; null: none. Outlives the runner.
  virtual void set_drill(StepDrill* drill) = 0;

  /// Drill: in the next step that feeds this sequence (none: in the next that feeds any), a row of its n-gram
  /// tables cannot be read. False: the tables are resident, so nothing is read.
  virtual bool inject_row_read_error(std::optional<SequenceId> sequence) = 0;

  /// How rows of stored n-gram tables are read, for the log; "" where they are resident.
  virtual std::string row_store_note() const = 0;

  /// The most that any step has taken of the arena. Equals the plan's arena_bytes once a step has sampled:
  /// steps take at capacity.
  virtual gpu::Bytes arena_high_water() const = 0;
};

}  // namespace model
