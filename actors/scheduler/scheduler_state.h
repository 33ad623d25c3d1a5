#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

#include "actors/messages.h"
#include "model/cache/page_pool.h"
#include "model/plan/serve_plan.h"
#include "model/sequence/sequence_record.h"

namespace actors {

struct SchedulerLimits {
  std::int32_t max_queue = 512;
  std::int32_t max_batch_size = 1;
  std::int32_t chunk_width = 64;
  std::int32_t prompt_logits_rows = 64;
  std::int32_t block_size = 16;
  std::int32_t num_pages = 0;
  std::int32_t num_state_slots = 0;
  std::int32_t max_plans_in_flight = 1;  ///< 1 on the CPU; a second one holds only plain rows
  std::int32_t max_tokens_ahead = 32;    ///< of the sequence actor's last acknowledgement
};
SchedulerLimits scheduler_limits(const model::ServePlan& plan, std::int32_t max_queue);

/// The sequence's actor is gone: nobody speaks for it any more.
struct SequenceGone {
  model::SequenceId id = 0;
};
using SchedulerEvent = std::variant<Register, Cancel, Finish, Acknowledge, Pause, Resume, Rollback, SetMask,
                                    CaptureNow, ReleasePoints, SequenceGone, StepDone, EngineLost,
                                    CanaryWanted, CanaryEnded>;

struct SubmitPlan {
  std::shared_ptr<const model::StepPlan> plan;
};
template <class Message>
struct ToSequence {
  model::SequenceId id = 0;
  Message message;
};
/// The device answered something that no plan asked for: our own mistake, and nothing it says can be trusted.
struct ReportBroken {
  std::string what;
};
struct SubmitCanary {
  CanaryPlace place;
};
struct SkipCanary {};
using SchedulerEffect =
    std::variant<SubmitPlan, SubmitCanary, SkipCanary, ToSequence<Accepted>, ToSequence<Refused>,
                 ToSequence<TokensReady>, ToSequence<StepFailed>, ToSequence<Declined>, ReportBroken>;

/// The queues, the accounting and the truth about every sequence's tokens, of one device. Owned by the
/// scheduler actor. No clock, no I/O, no CAF: an event changes it and says what the shell has to do, in that
/// order (the next plan leaves before the tokens of the last one are handed out). It changes in place, for it
/// holds every token of every sequence; `step` is still a function of (state, event) alone.
///
///   one sequence: queue ──admits──▶ active ──ends──▶ (a finished record) ──its actor is gone──▶ forgotten
///
/// A finished record stays until its actor is gone, so a late word about it is told from one that overtook
/// its registration.
class SchedulerState {
 public:
  explicit SchedulerState(SchedulerLimits limits);

  std::vector<SchedulerEffect> step(const SchedulerEvent& event);

  struct Load {
    std::int32_t running = 0;
    std::int32_t waiting = 0;
    std::int32_t pages_used = 0;
    std::int32_t pages_total = 0;
  };
  Load load() const;

  // What tests look at.
  const model::SequenceRecord* find(model::SequenceId id) const;
  const model::PagePool& pages() const { return pages_; }
  const model::SlotPool& slots() const { return slots_; }
  std::size_t plans_in_flight() const { return in_flight_.size(); }
  std::size_t kept_cancels() const { return early_cancels_.size(); }
  std::size_t records() const { return entries_.size(); }

 private:
  struct Entry {
    model::SequenceRecord record;
    std::int32_t acknowledged = 0;
    bool prompt_logprobs = false;
    bool paused = false;
    std::int32_t reserved_pages = 0;
    model::StepNumber last_plan = 0;  ///< the newest plan that names it
  };
  struct FeedInFlight {
    model::SequenceId id = 0;
    model::Epoch plan_epoch = 0;
    std::int32_t rows = 0;
    std::int32_t samples = 0;
    std::int32_t given = 0;         ///< rows before the samples that speak of prompt tokens
    std::int32_t first_sample = 0;  ///< the samples' place among the plan's rows with logits
  };
  struct PlanInFlight {
    model::StepNumber number = 0;
    std::vector<FeedInFlight> feeds;
  };
  struct Ahead {  // of one sequence, what plans in flight will have done
    std::int32_t rows = 0;
    std::int32_t samples = 0;
    model::RowRef newest_sample;
  };
  using Effects = std::vector<SchedulerEffect>;

  void on(const Register& event, Effects& effects);
  void on(const Cancel& event, Effects& effects);
  void on(const Finish& event, Effects& effects);
  void on(const Acknowledge& event, Effects& effects);
  void on(const Pause& event, Effects& effects);
  void on(const Resume& event, Effects& effects);
  void on(const Rollback& event, Effects& effects);
  void on(const SetMask& event, Effects& effects);
  void on(const CaptureNow& event, Effects& effects);
  void on(const ReleasePoints& event, Effects& effects);
  void on(const SequenceGone& event, Effects& effects);
  void on(const StepDone& event, Effects& effects);
  void on(const EngineLost& event, Effects& effects);
  void on(const CanaryWanted& event, Effects& effects);
  void on(const CanaryEnded& event, Effects& effects);

  Entry* current(model::SequenceId id, model::Epoch token_epoch);
  void commit(const FeedInFlight& feed, const model::FeedOutcome& outcome, Effects& effects);
  void end(Entry& entry, model::SequenceEnd why);
  void admit_waiting();
  void submit_plans(Effects& effects);
  std::shared_ptr<const model::StepPlan> next_plan();
  model::Feed make_feed(Entry& entry, const struct PlannedFeed& planned, const Ahead& ahead,
                        model::StepNumber number);
  std::unordered_map<model::SequenceId, Ahead> ahead() const;

  SchedulerLimits limits_;
  model::PagePool pages_;
  model::SlotPool slots_;
  std::unordered_map<model::SequenceId, Entry> entries_;
  std::deque<model::SequenceId> queue_;
  std::vector<Entry*> active_;  ///< in the order of admission; an entry stays where it is
  std::unordered_set<model::SequenceId> early_cancels_;
  std::deque<PlanInFlight> in_flight_;
  Effects answers_;  ///< of the event under way; kept for its memory
  model::StepNumber last_number_ = 0;
  std::optional<CanaryPlace> canary_;  ///< what the one that runs holds
  bool lost_ = false;
};

}  // namespace actors
