#pragma once

#include <optional>
#include <utility>

#include "model/sequence/host_state.h"
#include "model/sequence/state_snapshot.h"

namespace model {

/// Everything that a rollback restores: device state of k fed tokens and host state of k + 1 known ones, so
/// that token k is fed again and its successor sampled anew. The halves come from two actors; only halves
/// that fit make a point.
class RollbackPoint {
 public:
  /// None when the halves are not of the same place.
  static std::optional<RollbackPoint> join(StateSnapshot device, HostState host) {
    if (host.num_tokens() != device.k() + 1) return std::nullopt;
    return RollbackPoint(std::move(device), std::move(host));
  }
  const StateSnapshot& device() const { return device_; }
  const HostState& host() const { return host_; }

 private:
  RollbackPoint(StateSnapshot device, HostState host) : device_(std::move(device)), host_(std::move(host)) {}

  StateSnapshot device_;
  HostState host_;
};

}  // namespace model
