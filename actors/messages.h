#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/engine.h"
#include "actors/gpu_stream/canary.h"
#include "actors/response_sink.h"
#include "model/errors.h"
#include "model/ids.h"
#include "model/runner/step_plan.h"
#include "model/sequence/sequence_record.h"

/// Every message that crosses an actor boundary, one struct each; most of them are events of a pure state
/// machine as they are. No CAF here: the typed handles are in handles.h. Large values travel as
/// shared_ptr<const T>.
namespace actors {

// ---- sequence → scheduler. All but Cancel are judged by the token epoch: one that speaks of dropped tokens
// is ignored.

struct Register {
  model::SequenceId id = 0;
  std::shared_ptr<const std::vector<model::TokenId>> prompt;
  model::SequenceLimits limits;
  model::SamplingRef sampling;
  bool prompt_logprobs = false;  ///< how likely each prompt token was is told, too
};
struct Acknowledge {  ///< the sequence actor has dealt with `tokens_seen` generated tokens
  model::SequenceId id = 0;
  model::Epoch token_epoch = 0;
  std::int32_t tokens_seen = 0;
};
struct Finish {  ///< the text ended (a stop string) with generated token number `tokens_seen`; what was
                 ///< sampled after it never was
  model::SequenceId id = 0;
  model::Epoch token_epoch = 0;
  std::int32_t tokens_seen = 0;
};
struct Cancel {  ///< never stale; kept when it overtakes its registration
  model::SequenceId id = 0;
};
struct Pause {
  model::SequenceId id = 0;
  model::Epoch token_epoch = 0;
};
struct Resume {
  model::SequenceId id = 0;
  model::Epoch token_epoch = 0;
};
struct Rollback {  ///< tokens after index `boundary` never were; answered RolledBack or Declined
  model::SequenceId id = 0;
  model::Epoch token_epoch = 0;
  std::int32_t tokens_seen = 0;
  model::Position boundary = 0;
  model::Position banned_at =
      -1;  ///< where `banned` may not be sampled for the rest of the sequence; -1: nowhere
  model::TokenId banned = -1;
};
struct CaptureNow {  ///< a point before the next feed, and none taken or given up after it until
                     ///< ReleasePoints
  model::SequenceId id = 0;
  model::Epoch token_epoch = 0;
  std::int32_t tokens_seen = 0;
};
struct ReleasePoints {
  model::SequenceId id = 0;
  model::Epoch token_epoch = 0;
};
struct SetMask {
  model::SequenceId id = 0;
  model::Epoch token_epoch = 0;
  std::int32_t tokens_seen = 0;
  model::MaskRef mask;
};

// ---- scheduler → sequence

struct Accepted {};  ///< queued or admitted; it will be served
struct Refused {
  model::RequestError error;
};
struct TokensReady {
  model::Epoch token_epoch = 0;
  std::vector<model::SampledToken> tokens;
  std::optional<model::SequenceEnd> end;  ///< the last of `tokens` ended the sequence
  std::vector<model::SampledToken>
      prompt{};  ///< further prompt tokens with their likelihood, before `tokens`
};
struct StepFailed {
  model::StepError error;
};
enum class Operation { rollback, set_mask, capture };
enum class DeclineReason { Disabled, CapReached, NoBoundary, NoSnapshot, NoAuxSnapshot, AlreadySent };
struct Declined {
  Operation operation = Operation::rollback;
  DeclineReason reason = DeclineReason::Disabled;
};
/// A snapshot of k fed tokens exists. Comes after token k and before the tokens of the step that was taken
/// after it, so the sequence's host state at that moment is the other half of the point.
struct Captured {
  model::Position k = 0;
  model::SnapshotSlot slot = -1;
  model::Epoch token_epoch = 0;
};

struct RolledBack {  ///< as asked for; tokens come with this epoch from here on
  model::Position boundary = 0;
  model::Epoch token_epoch = 0;
};

// ---- sequence ↔ request (texts go through the request's Outlet instead)

struct ChoiceAccepted {
  std::int32_t index = 0;
};
struct ChoiceRefused {
  std::int32_t index = 0;
  model::RequestError error;
};
struct ChoiceEnded {
  ChoiceEnd end;
  std::int32_t completion_tokens = 0;
  std::int32_t reasoning_tokens = 0;
  std::optional<model::StepError> error;  ///< what failed, when end.reason is error
};
struct EndChoice {  ///< request → sequence: stop now, for this reason
  model::FinishReason reason = model::FinishReason::cancelled;
  std::string details;
};
struct PauseChoice {};
struct ResumeChoice {};

// ---- health → request

struct ClientGone {};
struct RequestTimedOut {
  std::string details;  ///< what ran out, for stop_details
};
struct EngineFailing {
  model::FatalError error;
};

// ---- gpu_stream ↔ scheduler, health

struct ExecutePlan {
  std::shared_ptr<const model::StepPlan> plan;
};
struct StepDone {
  std::shared_ptr<const model::StepResult> result;
};
struct EngineLost {
  model::FatalError error;
};
struct EngineUp {};  ///< loaded, and the canary passed
struct LoadFailed {
  std::vector<std::string> problems;
};

// ---- the canary of a ready process: health → scheduler → gpu_stream, and back to both

struct CanaryWanted {
  std::int32_t num_pages = 0;
};
struct RunCanary {
  CanaryPlace place;
};
struct CanaryEnded {
  enum class Outcome {
    passed,
    skipped,  ///< somebody is being served: that says as much
    failed,
  };
  Outcome outcome = Outcome::passed;
  std::string what;
};

// ---- http → health (Engine, System), each by its ticket

struct Submit {
  Engine::Ticket ticket = 0;
  std::shared_ptr<const GenerateRequest> request;
  std::shared_ptr<ResponseSink> sink;
  std::chrono::steady_clock::time_point at;
};
struct TicketGone {
  Engine::Ticket ticket = 0;
};
struct TicketPaused {
  Engine::Ticket ticket = 0;
};
struct TicketResumed {
  Engine::Ticket ticket = 0;
};
struct Drain {};

// ---- encoder

/// Anything that encodes for long: runs on the encoder's own thread and answers there.
struct EncodeJob {
  std::function<void()> run;
};

}  // namespace actors
