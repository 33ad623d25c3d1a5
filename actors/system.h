#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "actors/engine.h"
#include "model/plan/fault_drill.h"
#include "model/runner/step_plan.h"

namespace actors {

/// Two, and one where the machine has no third core: there a second only contends with the first, the
/// device's thread and the I/O thread (stream_bench: a sixth less processor time a token with one).
inline std::int32_t default_actor_threads() { return std::thread::hardware_concurrency() > 2 ? 2 : 1; }

struct SystemOptions {
  std::int32_t max_queue = 512;
  std::chrono::milliseconds step_deadline{30'000};
  std::chrono::milliseconds fatal_grace{2'000};
  std::chrono::milliseconds drain_timeout{30'000};
  std::int32_t actor_threads = default_actor_threads();
  bool log_requests = false;
  std::chrono::milliseconds health_canary{0};  ///< how often the canary runs while nobody else does; 0: never
  std::vector<model::FaultOrder> faults;       ///< those of actors happen here
  std::function<bool()> answers_sent;          ///< no connection has one under way; any thread. Empty: always
};

/// Runs on the GPU-stream actor's own thread, once: opens the device, loads the weights, warms up. Reports
/// its stage through the health word.
using ExecutorFactory =
    std::function<model::Result<std::unique_ptr<model::StepExecutor>, model::LoadError>(HealthWord&)>;

/// The actor tree, started and stopped as one. Created, and destroyed last, by main.
class System {
 public:
  /// `on_exit` is called once, from an actor's thread, when the process has to end: 0 drained, 1 it never
  /// became ready (`why` says what is wrong, a line a problem), 70 fatal. On 70 the order of architecture
  /// section 7 has been kept: the health word failed first, live choices have their errors, and the grace has
  /// passed.
  static std::unique_ptr<System> start(std::shared_ptr<const ServedModel> served,
                                       const SystemOptions& options, ExecutorFactory factory,
                                       std::function<void(int code, std::string why)> on_exit);
  virtual ~System() = default;

  virtual Engine& engine() = 0;
  virtual const HealthWord& health() const = 0;
  virtual std::string metrics_text() const = 0;  ///< Prometheus text format; any thread
  virtual void
  drain() = 0;  ///< SIGTERM: no new requests, running ones finish within drain_timeout, then on_exit(0)
};

}  // namespace actors
