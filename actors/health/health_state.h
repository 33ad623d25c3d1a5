#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "actors/engine.h"
#include "actors/health/policy.h"
#include "actors/messages.h"

namespace actors {

using TimePoint = std::chrono::steady_clock::time_point;
using Milliseconds = std::chrono::milliseconds;

struct HealthLimits {
  Milliseconds step_deadline{30'000};
  Milliseconds fatal_grace{2'000};
  Milliseconds drain_timeout{30'000};
};

// Events. Those that come as messages are taken as they are; time comes in with the event.
struct RequestArrived {
  Engine::Ticket ticket = 0;
  std::optional<TimePoint> deadline;
};
struct RequestLeft {
  Engine::Ticket ticket = 0;
};
struct CoreActorDied {
  Role role = Role::scheduler;
  std::string what;
};
struct DrainRequested {
  TimePoint now;
};
/// Regularly while requests live or a plan is in flight.
struct Tick {
  TimePoint now;
  bool plan_in_flight = false;
  std::uint64_t plans_done = 0;
  std::uint64_t progress = 0;
  bool answers_sent = true;  ///< no connection has one under way
};
/// The time has come to look whether the engine still computes what it did.
struct CanaryDue {};
using HealthEvent = std::variant<EngineUp, LoadFailed, EngineLost, RequestArrived, RequestLeft, CoreActorDied,
                                 DrainRequested, Tick, CanaryDue, CanaryEnded>;

// Effects.
struct PublishReady {};
struct PublishDraining {};
enum class Fault : std::uint8_t { device_lost, no_progress, actor_death, canary };
struct PublishFailing {
  std::string reason;
  Fault fault = Fault::device_lost;
};
struct AcceptRequest {
  Engine::Ticket ticket = 0;
};
struct RefuseRequest {
  Engine::Ticket ticket = 0;
  model::RequestError error;
};
struct FailRequests {  ///< every live one
  std::string reason;
};
struct StartCanary {};
struct ExpireRequest {
  Engine::Ticket ticket = 0;
  std::string details;
};
struct ArmWatchdog {  ///< a plain thread that ends the process even if no actor moves any more
  Milliseconds within{0};
  int code = 0;
  std::string reason;
};
struct ExitProcess {
  int code = 0;
  std::string why;
};
using HealthEffect = std::variant<PublishReady, PublishDraining, PublishFailing, AcceptRequest, RefuseRequest,
                                  FailRequests, ExpireRequest, ArmWatchdog, ExitProcess, StartCanary>;

/// The process's life. Owned by the health actor; pure.
///
///   starting ──EngineUp──▶ ready ──DrainRequested──▶ draining ──the last request left, or out of time──▶
///   exited (0)
///      │ LoadFailed: exited (1)                          │
///      └───── EngineLost (70), CoreActorDied, no progress: failing ──grace over, requests told──▶ exited
///      (70; 1 when it never was ready)
///
/// A canary that fails is a lost device: what it computes is not to be trusted. While failing the word is
/// published first; requests get their errors; the process stays for min(grace, 1 s) to answer probes, then
/// leaves as soon as every request has and every answer is sent, at the latest with the grace.
class HealthState {
 public:
  explicit HealthState(HealthLimits limits) : limits_(limits) {}

  std::vector<HealthEffect> step(const HealthEvent& event);
  ProcessState state() const { return state_; }
  /// An idle, ready process needs none.
  bool needs_ticks() const;
  std::size_t live_requests() const { return requests_.size(); }

 private:
  using Effects = std::vector<HealthEffect>;
  void on(const EngineUp& event, Effects& effects);
  void on(const LoadFailed& event, Effects& effects);
  void on(const EngineLost& event, Effects& effects);
  void on(const RequestArrived& event, Effects& effects);
  void on(const RequestLeft& event, Effects& effects);
  void on(const CoreActorDied& event, Effects& effects);
  void on(const DrainRequested& event, Effects& effects);
  void on(const Tick& event, Effects& effects);
  void on(const CanaryDue& event, Effects& effects);
  void on(const CanaryEnded& event, Effects& effects);

  void fail(Fault fault, const std::string& reason, int code, Effects& effects);
  void exit(int code, std::string why, Effects& effects);
  void exit_when_idle(Effects& effects);
  void watch_progress(const Tick& event, Effects& effects);
  void watch_deadlines(const Tick& event, Effects& effects);
  void watch_drain(const Tick& event, Effects& effects);
  void watch_grace(const Tick& event, Effects& effects);

  HealthLimits limits_;
  ProcessState state_ = ProcessState::starting;
  std::string reason_;
  int fatal_code_ = model::kExitFatal;
  std::map<Engine::Ticket, std::optional<TimePoint>> requests_;
  TimePoint next_deadline_ =
      TimePoint::max();  ///< no request's is earlier: a tick seldom looks at all of them
  std::optional<TimePoint> drain_until_;
  bool drain_expired_ = false;
  std::optional<TimePoint> failing_since_;  ///< the first tick after it

  bool canary_runs_ = false;
  bool plan_seen_ = false;  ///< at the last tick
  std::uint64_t plans_done_ = 0;
  std::uint64_t progress_ = 0;
  TimePoint progress_at_;
};

}  // namespace actors
