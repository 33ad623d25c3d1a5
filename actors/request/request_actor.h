#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "actors/encoder/encode_queue.h"
#include "actors/handles.h"
#include "actors/metrics/registry.h"
#include "actors/request/outlet.h"
#include "actors/request/request_state.h"

namespace actors {

using SequenceIds = std::atomic<model::SequenceId>;  ///< the next one; shared by all requests

/// What every request needs of the rest.
struct RequestSurroundings {
  std::shared_ptr<const ServedModel> served;
  SchedulerHandle scheduler;
  EncoderHandle encoder;
  std::shared_ptr<Metrics> metrics;
  std::shared_ptr<SequenceIds> sequence_ids;
  bool log_requests = false;
  std::shared_ptr<EncodeQueue> encode_queue = std::make_shared<EncodeQueue>(512);
  std::shared_ptr<std::atomic<bool>> told_of_clamping = std::make_shared<std::atomic<bool>>(false);
};
struct RequestSettings {
  RequestSurroundings around;
  std::shared_ptr<const GenerateRequest> request;
  std::shared_ptr<ResponseSink> sink;
  std::chrono::steady_clock::time_point submitted;
};
struct RequestShell {
  RequestShell() = default;
  ~RequestShell() {
    if (outlet != nullptr) outlet->close();
  }
  RequestSettings settings;
  std::shared_ptr<Outlet> outlet;  ///< shared with the choices; made of settings.sink
  std::optional<RequestState> request;
  std::vector<SequenceHandle> choices;            ///< by choice index
  std::map<caf::actor_addr, std::int32_t> index;  ///< who a DOWN message speaks of
  Unwanted unwanted = make_unwanted();            ///< set when it ends: nobody need encode for it any more
};
static_assert(!std::is_aggregate_v<RequestShell>);

/// The shell round RequestState, and the owner of its outlet. Spawned and monitored by health; its
/// choices die with it.
RequestHandle::behavior_type request_actor(RequestHandle::stateful_pointer<RequestShell> self,
                                           RequestSettings settings);

}  // namespace actors
