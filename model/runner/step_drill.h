#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "gpu/stream.h"
#include "kernels/ops.h"
#include "model/plan/fault_drill.h"
#include "model/runner/step_plan.h"

namespace model {

/// Makes the ordered faults happen in a Runner's steps, at the seams where real ones come from: the stream,
/// an operation, a feed, the logits. An order waits for the first step in which it can happen, happens once,
/// and never in the canary unless it names it. Used by the device's thread alone; a server without orders has
/// none.
class StepDrill {
 public:
  explicit StepDrill(std::vector<FaultOrder> orders);

  void begin_step(const StepPlan& plan);
  /// A feed that fails, alone.
  std::optional<StepError> refusal(const Feed& feed);
  /// Before rows of stored tables are read: whose read fails in this step.
  std::optional<SequenceId> unread_row(const StepPlan& plan);
  /// Before the step's first operation. May take its time, or never return.
  gpu::Status before_step(gpu::Stream& stream, kernels::Ops& ops);
  /// Before each (kernels::HookedOps).
  gpu::Status before_op(gpu::Stream& stream, std::string_view op);
  /// Whether the logits of this feed become NaN.
  bool poisons(const Feed& feed);

 private:
  enum class Life { waiting, happening, over };
  struct Pending {
    FaultOrder order;
    Life life = Life::waiting;
  };
  bool is_due(const Pending& pending) const;
  bool concerns(const FaultOrder& order, const Feed& feed) const;

  std::vector<Pending> pending_;
  StepNumber step_ = 0;  ///< plans executed since ready
  bool in_canary_ = false;
};

}  // namespace model
