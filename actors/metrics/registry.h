#pragma once

#include <memory>
#include <optional>
#include <string>

#include "actors/engine.h"
#include "actors/messages.h"
#include "model/errors.h"
#include "model/runner/step_plan.h"

namespace actors {

/// What the process has done, as Prometheus reads it. Every series exists from the start, so a rate over it
/// is never undefined. Any thread.
class Metrics {
 public:
  explicit Metrics(const std::string& model_name, const BackendInfo& backend = {});
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  void set_load(int running, int waiting, double kv_usage);
  void set_health(ProcessState state);
  void observe_first_token(double seconds);
  /// `tokens` that came together, `seconds` after the last ones.
  void observe_inter_token(double seconds, int tokens);
  void observe_request(double seconds);
  void count_prompt_tokens(int tokens);
  void count_generated_tokens(int tokens);
  void count_end(model::FinishReason reason);
  void observe_step(const model::StepStats& stats);
  void observe_step_overhead(double seconds);
  enum class FaultKind { step_error, device_lost, no_progress, actor_death, canary };
  void count_fault(FaultKind kind);
  /// A loop was found.
  void count_watchdog_hit();
  /// It was rolled back, or that was declined.
  void count_rollback(std::optional<DeclineReason> declined);

  std::string text() const;

 private:
  struct Series;
  std::unique_ptr<Series> series_;
};

}  // namespace actors
