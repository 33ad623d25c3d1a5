#pragma once

#include <caf/all.hpp>

#include "actors/messages.h"
#include "actors/request/request_state.h"
#include "actors/sequence/repetition_ladder.h"

/// The typed handles of all actors, and CAF's leave to pass our messages by value inside one process.
/// Included by *_actor files alone.
namespace actors {

using GpuStreamHandle = caf::typed_actor<caf::reacts_to<ExecutePlan>, caf::reacts_to<RunCanary>>;

/// gpu_stream → scheduler, before it says EngineUp to health: plans go there.
struct AttachGpuStream {
  GpuStreamHandle gpu_stream;
};
struct HealthTick {};    ///< health to itself
struct CanaryTime {};    ///< health to itself
struct BeginRequest {};  ///< a request actor to itself: after what overtook it
struct LoadEngine {};    ///< the GPU-stream actor to itself

using SchedulerHandle =
    caf::typed_actor<caf::reacts_to<Acknowledge>, caf::reacts_to<AttachGpuStream>, caf::reacts_to<Register>,
                     caf::reacts_to<Finish>, caf::reacts_to<Cancel>, caf::reacts_to<Pause>,
                     caf::reacts_to<Resume>, caf::reacts_to<Rollback>, caf::reacts_to<SetMask>,
                     caf::reacts_to<CaptureNow>, caf::reacts_to<ReleasePoints>, caf::reacts_to<StepDone>,
                     caf::reacts_to<EngineLost>, caf::reacts_to<CanaryWanted>, caf::reacts_to<CanaryEnded>>;
using SequenceHandle =
    caf::typed_actor<caf::reacts_to<TokensReady>, caf::reacts_to<Accepted>, caf::reacts_to<Refused>,
                     caf::reacts_to<StepFailed>, caf::reacts_to<Declined>, caf::reacts_to<Captured>,
                     caf::reacts_to<RolledBack>, caf::reacts_to<HoldExpired>, caf::reacts_to<EndChoice>,
                     caf::reacts_to<PauseChoice>, caf::reacts_to<ResumeChoice>>;
using RequestHandle = caf::typed_actor<
    caf::reacts_to<BeginRequest>, caf::reacts_to<Prepared>, caf::reacts_to<PrepareFailed>,
    caf::reacts_to<RequestCrashed>, caf::reacts_to<ChoiceAccepted>, caf::reacts_to<ChoiceRefused>,
    caf::reacts_to<ChoiceEnded>, caf::reacts_to<RequestTimedOut>, caf::reacts_to<ClientGone>,
    caf::reacts_to<EngineFailing>, caf::reacts_to<PauseRequested>, caf::reacts_to<ResumeRequested>>;
using EncoderHandle = caf::typed_actor<caf::reacts_to<EncodeJob>>;
using HealthHandle =
    caf::typed_actor<caf::reacts_to<EngineUp>, caf::reacts_to<LoadFailed>, caf::reacts_to<EngineLost>,
                     caf::reacts_to<Submit>, caf::reacts_to<TicketGone>, caf::reacts_to<TicketPaused>,
                     caf::reacts_to<TicketResumed>, caf::reacts_to<Drain>, caf::reacts_to<HealthTick>,
                     caf::reacts_to<EncodeJob>, caf::reacts_to<CanaryTime>, caf::reacts_to<CanaryEnded>>;

}  // namespace actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actors::AttachGpuStream)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actors::HealthTick)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actors::BeginRequest)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actors::CanaryTime)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actors::CanaryWanted)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actors::RunCanary)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actors::CanaryEnded)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actors::LoadEngine)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actors::Register)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actors::Acknowledge)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actors::Finish)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actors::Cancel)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actors::Pause)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actors::Resume)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actors::Rollback)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actors::SetMask)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actors::CaptureNow)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actors::ReleasePoints)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actors::Accepted)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actors::Refused)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actors::TokensReady)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actors::StepFailed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actors::Declined)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actors::Captured)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actors::RolledBack)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actors::HoldExpired)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actors::ChoiceAccepted)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actors::ChoiceRefused)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actors::ChoiceEnded)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actors::EndChoice)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actors::PauseChoice)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actors::ResumeChoice)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actors::ClientGone)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actors::RequestTimedOut)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actors::EngineFailing)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actors::Prepared)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actors::PrepareFailed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actors::RequestCrashed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actors::PauseRequested)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actors::ResumeRequested)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actors::ExecutePlan)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actors::StepDone)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actors::EngineLost)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actors::EngineUp)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actors::LoadFailed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actors::Submit)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actors::TicketGone)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actors::TicketPaused)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actors::TicketResumed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actors::Drain)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actors::EncodeJob)
