#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "actors/messages.h"
#include "model/repetition/capture_pace.h"
#include "model/repetition/detector.h"

namespace actors {

/// What held events wait for at most; then they are sent and cannot be taken back.
inline constexpr std::int32_t kMaxHeldTokens = 128;
inline constexpr std::chrono::milliseconds kMaxHoldTime{2000};

/// How what is said leaves.
enum class Delivery {
  at_once,     ///< a stream: only what is held can be taken back
  at_the_end,  ///< nobody reads before the end
};

struct LadderSettings {
  bool rolls_back = false;         ///< --content-loop-watchdog; else a loop is the end at once
  std::int32_t max_rollbacks = 2;  ///< of one choice
  std::int32_t max_points = 4;     ///< --snapshot-slots
  Delivery delivery = Delivery::at_once;
};

// Events. A token is seen with everything known about the tail that it ends.
struct TokenSeen {
  model::Position num_tokens = 0;  ///< known, with this one
  std::optional<model::repetition::Tail> tail;
  bool steerable = true;  ///< false within a tool call's body and where a grammar forces the token
};
struct PointCaptured {  ///< device state of k fed tokens and host state of k + 1 known ones exist
  model::Position k = 0;
};
struct CaptureDeclined {
  DeclineReason why = DeclineReason::NoSnapshot;
};
struct HoldExpired {  ///< kMaxHoldTime has passed since StartHoldTimer with the same number
  std::uint32_t hold = 0;
};
struct RollbackDone {};
struct RollbackDeclined {
  DeclineReason why = DeclineReason::NoSnapshot;
};
using LadderEvent =
    std::variant<TokenSeen, PointCaptured, CaptureDeclined, HoldExpired, RollbackDone, RollbackDeclined>;

// Effects.
struct AskCapture {};  ///< before the next feed; and the ring of points stays as it is until ReleaseRing
struct ReleaseRing {};
struct HoldEvents {};  ///< what is said from here on stays here
struct StartHoldTimer {
  std::uint32_t hold = 0;
};
struct ReleaseEvents {  ///< of the first so many tokens
  model::Position num_tokens = 0;
};
struct ReleaseAllEvents {};  ///< and hold no more
struct RollBackTo {
  model::Position k = 0;          ///< tokens after index k never were
  model::Position banned_at = 0;  ///< where the loop was entered again
  std::int32_t banned_back = 0;   ///< what may not be sampled there equals the token seen so long ago
};
struct ForgetSince {  ///< the rollback is done: nothing after token k was seen or said
  model::Position k = 0;
};
struct CountHit {};
struct CountRollback {
  std::optional<DeclineReason> declined;  ///< none: it was done
};
struct StopForRepetition {};
using LadderEffect =
    std::variant<AskCapture, ReleaseRing, HoldEvents, StartHoldTimer, ReleaseEvents, ReleaseAllEvents,
                 RollBackTo, ForgetSince, CountHit, CountRollback, StopForRepetition>;

/// What is done about a tail that repeats: remember the place where it is suspected, come back to it when it
/// is a loop, and steer; after max_rollbacks, or where that is not possible, stop. Pure; owned by the
/// sequence's text state.
///
///                ┌────────────── the tail breaks, or is not ours to steer ──────────────┐
///                ▼                                                                      │
///   Watching ─suspects─▶ Asked ─PointCaptured─▶ Pointed ─fires─▶ RollingBack ─done─▶ Watching
///      │                   └─CaptureDeclined─▶ Pointless ─fires, older point─┘ └─declined─▶ Stopped
///      └─suspects, and nothing could be taken back─▶ Hopeless ◀─held too long─ Pointed
///                                                        └─fires─▶ Stopped (absorbs everything)
class RepetitionLadder {
 public:
  explicit RepetitionLadder(const LadderSettings& settings) : settings_(settings) {}

  using Effects = std::vector<LadderEffect>;
  Effects step(const LadderEvent& event);

  /// The places that it may come back to, ascending; others need not be remembered.
  const std::vector<model::Position>& points() const { return points_; }
  bool waits_for_capture() const { return std::holds_alternative<Asked>(state_); }
  /// While a rollback is on its way: what comes until it is done never was.
  std::optional<model::Position> rolling_back_to() const;
  std::int32_t rollbacks() const { return rollbacks_; }

 private:
  struct Watching {};
  struct Asked {};
  struct Pointed {
    model::Position k = 0;
    std::uint32_t hold = 0;
  };
  struct Pointless {  ///< older points may serve
    DeclineReason why = DeclineReason::NoSnapshot;
  };
  struct Hopeless {  ///< the ring is not kept: whatever comes of this tail, this is why it cannot be undone
    DeclineReason why = DeclineReason::Disabled;
  };
  struct RollingBack {
    model::Position to = 0;
  };
  struct Stopped {};
  using State = std::variant<Watching, Asked, Pointed, Pointless, Hopeless, RollingBack, Stopped>;

  void on(const TokenSeen& event, Effects& effects);
  void on(const PointCaptured& event, Effects& effects);
  void on(const CaptureDeclined& event, Effects& effects);
  void on(const HoldExpired& event, Effects& effects);
  void on(const RollbackDone& event, Effects& effects);
  void on(const RollbackDeclined& event, Effects& effects);

  bool streams() const { return settings_.delivery == Delivery::at_once; }
  bool may_roll_back() const { return settings_.rolls_back && rollbacks_ < settings_.max_rollbacks; }
  bool keeps_ring() const;
  void suspect(const TokenSeen& event, Effects& effects);
  void suspect_no_more(Effects& effects);
  void give_up_hold(Effects& effects);
  void act(const TokenSeen& event, Effects& effects);
  std::optional<model::Position> point_for(model::Position keep_at_most) const;
  DeclineReason why_no_point() const;
  void stop(DeclineReason why, Effects& effects);

  LadderSettings settings_;
  State state_ = Watching{};
  std::vector<model::Position> points_;
  std::optional<model::Position> last_point_;  ///< the newest that was taken or asked for
  std::int32_t rollbacks_ = 0;
  std::uint32_t last_hold_ = 0;
};

}  // namespace actors
