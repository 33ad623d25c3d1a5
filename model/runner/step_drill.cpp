#include "model/runner/step_drill.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

namespace model {
namespace {

using std::chrono::milliseconds;

/// Longer than usual, and visibly alive.
void go_slowly(gpu::Stream& stream, milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  for (auto now = std::chrono::steady_clock::now(); now < end; now = std::chrono::steady_clock::now()) {
    std::this_thread::sleep_for(std::min<std::chrono::steady_clock::duration>(end - now, milliseconds(5)));
    stream.note_progress();
  }
}

/// As a wait for a device that does not answer any more.
[[noreturn]] void never_return() {
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

gpu::Status suffer(const FaultOrder& order, gpu::Stream& stream, kernels::Ops* ops) {
  const std::string what = order.op.empty() ? "injected fault" : "injected fault, before " + order.op;
  switch (order.kind) {
    case FaultKind::sticky:
      return stream.inject(gpu::InjectedFault::illegal_address, what.c_str());
    case FaultKind::misaligned:
      return stream.inject(gpu::InjectedFault::misaligned_address, what.c_str());
    case FaultKind::step_error:
      return stream.inject(gpu::InjectedFault::refused_launch, what.c_str());
    case FaultKind::oom:
      return stream.inject(gpu::InjectedFault::out_of_memory, what.c_str());
    case FaultKind::blaslt_status:
      if (ops != nullptr) ops->refuse_products(1);
      break;
    case FaultKind::slow:
      go_slowly(stream, order.time);
      break;
    case FaultKind::hang:
      never_return();
    case FaultKind::nan:             // of the logits
    case FaultKind::actor_death:     // of the actors' shells
    case FaultKind::row_read_error:  // of the row store
    case FaultKind::verify_error:    // refused by parse_fault_orders
    case FaultKind::snapshot_fail:   // as well
      break;
  }
  return gpu::Done{};
}

bool is_of_a_step(FaultKind kind) {
  return kind != FaultKind::nan && kind != FaultKind::actor_death && kind != FaultKind::row_read_error;
}

}  // namespace

StepDrill::StepDrill(std::vector<FaultOrder> orders) {
  for (FaultOrder& order : orders) pending_.push_back({std::move(order)});
}

void StepDrill::begin_step(const StepPlan& plan) {
  in_canary_ = plan.number == kIdleCanaryStep;
  if (plan.number != kStartupStep && !in_canary_) ++step_;
  for (Pending& pending : pending_) {
    if (pending.life == Life::happening) pending.life = Life::over;
  }
}

bool StepDrill::is_due(const Pending& pending) const {
  if (pending.life == Life::over) return false;
  const bool of_the_canary = pending.order.request == SequenceId{0};
  return of_the_canary == in_canary_ && (in_canary_ || step_ >= pending.order.step);
}

bool StepDrill::concerns(const FaultOrder& order, const Feed& feed) const {
  return !order.request || *order.request == feed.id;
}

std::optional<StepError> StepDrill::refusal(const Feed& feed) {
  for (Pending& pending : pending_) {
    const FaultOrder& order = pending.order;
    if (order.kind != FaultKind::step_error || !order.request || !is_due(pending) || !concerns(order, feed))
      continue;
    pending.life = Life::happening;
    return StepError{"injected fault: choice " + std::to_string(feed.id) + " is refused"};
  }
  return std::nullopt;
}

std::optional<SequenceId> StepDrill::unread_row(const StepPlan& plan) {
  for (Pending& pending : pending_) {
    if (pending.order.kind != FaultKind::row_read_error || !is_due(pending)) continue;
    for (const Feed& feed : plan.feeds) {
      if (!concerns(pending.order, feed)) continue;
      pending.life = Life::over;
      return feed.id;
    }
  }
  return std::nullopt;
}

gpu::Status StepDrill::before_step(gpu::Stream& stream, kernels::Ops& ops) {
  for (Pending& pending : pending_) {
    const FaultOrder& order = pending.order;
    if (!is_of_a_step(order.kind) || order.request || !order.op.empty() || !is_due(pending)) continue;
    pending.life = Life::over;
    RETURN_IF_ERROR(suffer(order, stream, &ops));
  }
  return gpu::Done{};
}

gpu::Status StepDrill::before_op(gpu::Stream& stream, std::string_view op) {
  for (Pending& pending : pending_) {
    if (pending.order.op != op || !is_due(pending)) continue;
    pending.life = Life::over;
    RETURN_IF_ERROR(suffer(pending.order, stream, nullptr));
  }
  return gpu::Done{};
}

bool StepDrill::poisons(const Feed& feed) {
  bool poisoned = false;
  for (Pending& pending : pending_) {
    if (pending.order.kind != FaultKind::nan || !is_due(pending) || !concerns(pending.order, feed)) continue;
    pending.life = Life::happening;
    poisoned = true;
  }
  return poisoned;
}

}  // namespace model
