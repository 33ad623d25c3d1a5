#include "actors/sequence/repetition_ladder.h"

#include <algorithm>

#include "actors/overloaded.h"

namespace actors {

using model::Position;
using model::repetition::Tail;

RepetitionLadder::Effects RepetitionLadder::step(const LadderEvent& event) {
  Effects effects;
  if (!std::holds_alternative<Stopped>(state_)) {
    std::visit([&](const auto& e) { on(e, effects); }, event);
  }
  return effects;
}

std::optional<Position> RepetitionLadder::rolling_back_to() const {
  const auto* rolling = std::get_if<RollingBack>(&state_);
  return rolling == nullptr ? std::nullopt : std::optional(rolling->to);
}

bool RepetitionLadder::keeps_ring() const {
  return std::visit(overloaded{
                        [](const Asked&) { return true; },
                        [](const Pointed&) { return true; },
                        [](const Pointless&) { return true; },
                        [](const RollingBack&) { return true; },
                        [](const auto&) { return false; },
                    },
                    state_);
}

void RepetitionLadder::on(const TokenSeen& event, Effects& effects) {
  if (std::holds_alternative<RollingBack>(state_)) return;
  if (!event.tail || !event.steerable) return suspect_no_more(effects);
  if (std::holds_alternative<Watching>(state_)) suspect(event, effects);
  if (event.tail->tokens_to_fire == 0) return act(event, effects);
  const auto* pointed = std::get_if<Pointed>(&state_);
  if (pointed != nullptr && streams() && event.num_tokens - (pointed->k + 1) > kMaxHeldTokens) {
    give_up_hold(effects);
  }
}

/// Nothing is asked for that could not be used: each snapshot costs the device a copy, each hold its reader
/// a wait. Soon after another point the suspicion waits.
void RepetitionLadder::suspect(const TokenSeen& event, Effects& effects) {
  if (!settings_.rolls_back) {
    state_ = Hopeless{DeclineReason::Disabled};
  } else if (!may_roll_back()) {
    state_ = Hopeless{DeclineReason::CapReached};
  } else if (streams() && event.tail->tokens_to_fire > kMaxHeldTokens) {
    state_ = Hopeless{DeclineReason::AlreadySent};
  } else if (!last_point_ || event.num_tokens - *last_point_ >= model::repetition::kTokensBetweenPoints) {
    state_ = Asked{};
    last_point_ = event.num_tokens;
    effects.emplace_back(AskCapture{});
  }
}

void RepetitionLadder::suspect_no_more(Effects& effects) {
  if (keeps_ring()) effects.emplace_back(ReleaseRing{});
  if (streams() && std::holds_alternative<Pointed>(state_)) {
    effects.emplace_back(ReleaseAllEvents{});
    points_.clear();
  }
  state_ = Watching{};
}

void RepetitionLadder::give_up_hold(Effects& effects) {
  effects.emplace_back(ReleaseAllEvents{});
  effects.emplace_back(ReleaseRing{});
  points_.clear();
  state_ = Hopeless{DeclineReason::AlreadySent};
}

/// Without a stream every point is kept as one of the ring, and all that was said after the oldest.
void RepetitionLadder::on(const PointCaptured& event, Effects& effects) {
  const bool asked = waits_for_capture();
  if (!may_roll_back() || std::holds_alternative<RollingBack>(state_) || (streams() && !asked)) return;
  points_.push_back(event.k);
  last_point_ = event.k;
  effects.emplace_back(HoldEvents{});
  if (std::ssize(points_) > settings_.max_points) {
    points_.erase(points_.begin());
    effects.emplace_back(ReleaseEvents{points_.empty() ? event.k + 1 : points_.front() + 1});
  }
  if (!asked) return;
  state_ = Pointed{event.k, ++last_hold_};
  if (streams()) effects.emplace_back(StartHoldTimer{last_hold_});
}

void RepetitionLadder::on(const CaptureDeclined& event, Effects&) {
  if (waits_for_capture()) state_ = Pointless{event.why};
}

void RepetitionLadder::on(const HoldExpired& event, Effects& effects) {
  const auto* pointed = std::get_if<Pointed>(&state_);
  if (pointed != nullptr && streams() && pointed->hold == event.hold) give_up_hold(effects);
}

void RepetitionLadder::act(const TokenSeen& event, Effects& effects) {
  effects.emplace_back(CountHit{});
  if (const auto* hopeless = std::get_if<Hopeless>(&state_)) return stop(hopeless->why, effects);
  const Tail& tail = *event.tail;
  const Position second_period = event.num_tokens - tail.tokens + tail.period;
  const auto point = point_for(second_period);
  if (!point) return stop(why_no_point(), effects);
  const Position banned_at = std::max(*point + 1, second_period);
  effects.emplace_back(RollBackTo{*point, banned_at, (event.num_tokens - 1 - banned_at) % tail.period});
  state_ = RollingBack{*point};
}

/// The newest point that keeps no token of the second period; else the suspicion point, or the oldest of
/// what there is. In a stream only the suspicion point has its events held.
std::optional<Position> RepetitionLadder::point_for(Position second_period) const {
  const auto* pointed = std::get_if<Pointed>(&state_);
  if (!streams()) {
    const auto after = std::upper_bound(points_.begin(), points_.end(), second_period - 1);
    if (after != points_.begin()) return *std::prev(after);
  }
  if (pointed != nullptr) return pointed->k;
  return points_.empty() ? std::nullopt : std::optional(points_.front());
}

DeclineReason RepetitionLadder::why_no_point() const {
  const auto* pointless = std::get_if<Pointless>(&state_);
  return pointless == nullptr ? DeclineReason::NoBoundary : pointless->why;
}

void RepetitionLadder::on(const RollbackDone&, Effects& effects) {
  const auto* rolling = std::get_if<RollingBack>(&state_);
  if (rolling == nullptr) return;
  const Position to = rolling->to;
  ++rollbacks_;
  effects.emplace_back(CountRollback{});
  effects.emplace_back(ForgetSince{to});
  effects.emplace_back(ReleaseRing{});
  last_point_ = to;
  points_.erase(std::upper_bound(points_.begin(), points_.end(), to), points_.end());
  if (streams() || !may_roll_back()) {
    points_.clear();
    effects.emplace_back(ReleaseAllEvents{});
  }
  state_ = Watching{};
}

void RepetitionLadder::on(const RollbackDeclined& event, Effects& effects) {
  if (std::holds_alternative<RollingBack>(state_)) stop(event.why, effects);
}

void RepetitionLadder::stop(DeclineReason why, Effects& effects) {
  state_ = Stopped{};
  points_.clear();
  effects.emplace_back(CountRollback{why});
  effects.emplace_back(StopForRepetition{});
}

}  // namespace actors
