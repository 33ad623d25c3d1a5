#include "actors/scheduler/scheduler_state.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "actors/scheduler/admission.h"
#include "actors/scheduler/step_planner.h"

namespace actors {

using model::FinishReason;
using model::SequenceEnd;
using model::SequenceId;

SchedulerLimits scheduler_limits(const model::ServePlan& plan, std::int32_t max_queue) {
  SchedulerLimits limits;
  limits.max_queue = max_queue;
  limits.max_batch_size = plan.max_batch_size;
  limits.chunk_width = plan.chunk_width;
  limits.prompt_logits_rows = plan.prompt_logits_rows;
  limits.block_size = plan.block_size;
  limits.num_pages = plan.num_pages;
  limits.num_state_slots = plan.num_state_slots;
  return limits;
}

SchedulerState::SchedulerState(SchedulerLimits limits)
    : limits_(limits), pages_(limits.num_pages), slots_(limits.num_state_slots) {}

std::vector<SchedulerEffect> SchedulerState::step(const SchedulerEvent& event) {
  answers_.clear();
  std::visit([&](const auto& e) { on(e, answers_); }, event);
  admit_waiting();
  Effects effects;
  effects.reserve(answers_.size() + 1);
  submit_plans(effects);
  effects.insert(effects.end(), std::make_move_iterator(answers_.begin()),
                 std::make_move_iterator(answers_.end()));
  return effects;
}

void SchedulerState::on(const Register& event, Effects& effects) {
  const auto [place, added] = entries_.try_emplace(
      event.id, Entry{model::SequenceRecord(event.id, *event.prompt, event.limits, event.sampling)});
  if (!added) return;
  place->second.prompt_logprobs = event.prompt_logprobs;
  auto& record = place->second.record;
  if (early_cancels_.erase(event.id) > 0) {
    record.finish({FinishReason::cancelled, std::nullopt, false});
    return;
  }
  if (lost_) {
    record.finish({model::finish_reason(model::FatalError{}), std::nullopt, false});
    effects.emplace_back(
        ToSequence<Refused>{event.id, {model::refused_by(model::FatalError{"the device is lost"})}});
    return;
  }
  queue_.push_back(event.id);
  admit_waiting();
  if (static_cast<std::int32_t>(queue_.size()) <= limits_.max_queue) {
    effects.emplace_back(ToSequence<Accepted>{event.id, {}});
    return;
  }
  queue_.pop_back();
  record.finish({FinishReason::error, std::nullopt, false});
  effects.emplace_back(ToSequence<Refused>{
      event.id,
      {{model::RequestError::Kind::overloaded,
        "the queue is full: " + std::to_string(queue_.size()) + " sequences wait (--max-queue)", "",
        "rate_limit_exceeded"}}});
}

void SchedulerState::on(const Cancel& event, Effects&) {
  const auto place = entries_.find(event.id);
  if (place == entries_.end()) {
    early_cancels_.insert(event.id);
    return;
  }
  end(place->second, {FinishReason::cancelled, std::nullopt, false});
}

void SchedulerState::on(const Finish& event, Effects&) {
  if (auto* entry = current(event.id, event.token_epoch)) {
    end(*entry, {FinishReason::stop, std::nullopt, false});
  }
}

void SchedulerState::on(const Acknowledge& event, Effects&) {
  if (auto* entry = current(event.id, event.token_epoch)) {
    entry->acknowledged = std::max(entry->acknowledged, event.tokens_seen);
  }
}

void SchedulerState::on(const Pause& event, Effects&) {
  if (auto* entry = current(event.id, event.token_epoch)) entry->paused = true;
}

void SchedulerState::on(const Resume& event, Effects&) {
  if (auto* entry = current(event.id, event.token_epoch)) entry->paused = false;
}

void SchedulerState::on(const Rollback& event, Effects& effects) {
  if (current(event.id, event.token_epoch) == nullptr) return;
  effects.emplace_back(ToSequence<Declined>{event.id, {Operation::rollback, DeclineReason::Disabled}});
}

void SchedulerState::on(const SetMask& event, Effects& effects) {
  if (current(event.id, event.token_epoch) == nullptr) return;
  effects.emplace_back(ToSequence<Declined>{event.id, {Operation::set_mask, DeclineReason::Disabled}});
}

void SchedulerState::on(const CaptureNow& event, Effects& effects) {
  if (current(event.id, event.token_epoch) == nullptr) return;
  effects.emplace_back(ToSequence<Declined>{event.id, {Operation::capture, DeclineReason::Disabled}});
}

/// There are no points yet that it could have kept.
void SchedulerState::on(const ReleasePoints&, Effects&) {}

void SchedulerState::on(const SequenceGone& event, Effects&) {
  const auto place = entries_.find(event.id);
  if (place == entries_.end()) return;
  end(place->second, {FinishReason::cancelled, std::nullopt, false});
  entries_.erase(place);
}

void SchedulerState::on(const StepDone& event, Effects& effects) {
  const auto& result = *event.result;
  const auto answers = [&](const PlanInFlight& plan) {
    return plan.number == result.number &&
           std::equal(plan.feeds.begin(), plan.feeds.end(), result.outcomes.begin(), result.outcomes.end(),
                      [](const FeedInFlight& feed, const model::FeedOutcome& o) { return feed.id == o.id; });
  };
  if (in_flight_.empty() || !answers(in_flight_.front())) {
    lost_ = true;
    effects.emplace_back(ReportBroken{"step " + std::to_string(result.number) + " with " +
                                      std::to_string(result.outcomes.size()) +
                                      " outcomes answers no plan in flight"});
    return;
  }
  const auto feeds = std::move(in_flight_.front().feeds);
  in_flight_.pop_front();
  pages_.complete(result.number);
  slots_.complete(result.number);
  for (std::size_t i = 0; i < feeds.size(); ++i) commit(feeds[i], result.outcomes[i], effects);
}

void SchedulerState::on(const EngineLost&, Effects&) { lost_ = true; }

/// Only while nothing else runs: then it costs nobody anything, and there is room for it.
void SchedulerState::on(const CanaryWanted& event, Effects& effects) {
  const bool idle = active_.empty() && queue_.empty() && in_flight_.empty() && !canary_ && !lost_;
  if (!idle || slots_.free() < 1 || pages_.free() < event.num_pages) {
    effects.emplace_back(SkipCanary{});
    return;
  }
  canary_ = CanaryPlace{slots_.take(1)->front(), *pages_.take(event.num_pages)};
  effects.emplace_back(SubmitCanary{*canary_});
}

void SchedulerState::on(const CanaryEnded&, Effects&) {
  if (!canary_) return;
  slots_.release({canary_->slot}, 0);
  pages_.release(canary_->pages, 0);
  canary_.reset();
}

/// Null when the word is stale: the sequence is unknown, finished, or the tokens it speaks of were dropped.
SchedulerState::Entry* SchedulerState::current(SequenceId id, model::Epoch token_epoch) {
  const auto place = entries_.find(id);
  if (place == entries_.end()) return nullptr;
  auto& entry = place->second;
  if (entry.record.finished() || entry.record.token_epoch() != token_epoch) return nullptr;
  return &entry;
}

void SchedulerState::commit(const FeedInFlight& feed, const model::FeedOutcome& outcome, Effects& effects) {
  const auto place = entries_.find(outcome.id);
  if (place == entries_.end()) return;
  auto& entry = place->second;
  if (entry.record.plan_epoch() != outcome.plan_epoch) return;  // void: dropped whole
  if (!outcome.done.ok()) {
    end(entry, {model::finish_reason(outcome.done.error()), std::nullopt, false});
    effects.emplace_back(ToSequence<StepFailed>{outcome.id, {outcome.done.error()}});
    return;
  }
  const auto& sampled = outcome.done->sampled;
  std::vector<model::SampledToken> prompt;
  model::SequenceRecord::Committed committed;
  if (feed.given == 0) {
    committed = entry.record.commit(*outcome.done);
  } else {
    const auto first_sample = sampled.begin() + std::min<std::ptrdiff_t>(feed.given, std::ssize(sampled));
    prompt.assign(sampled.begin(), first_sample);
    committed = entry.record.commit({outcome.done->rows, {first_sample, sampled.end()}});
  }
  if (committed.end) end(entry, *committed.end);
  if (committed.accepted.empty() && prompt.empty()) return;
  effects.emplace_back(ToSequence<TokensReady>{
      outcome.id,
      {entry.record.token_epoch(), std::move(committed.accepted), committed.end, std::move(prompt)}});
}

/// Idempotent. Everything the sequence held goes to quarantine until the last plan that names it has
/// completed.
void SchedulerState::end(Entry& entry, SequenceEnd why) {
  auto& record = entry.record;
  record.finish(why);
  std::erase(queue_, record.id());
  if (std::erase(active_, &entry) == 0) return;
  pages_.release(record.take_pages(), entry.last_plan);
  slots_.release({record.slot()}, entry.last_plan);
}

void SchedulerState::admit_waiting() {
  while (!queue_.empty() && !lost_) {
    auto& entry = entries_.at(queue_.front());
    Room room;
    room.sequences = limits_.max_batch_size - static_cast<std::int32_t>(active_.size());
    room.free_slots = slots_.free();
    room.free_pages = pages_.free();
    for (const auto* other : active_) {
      room.promised_pages += other->reserved_pages - static_cast<std::int32_t>(other->record.pages().size());
    }
    const auto needed = pages_for(entry.record.max_tokens_ever(), limits_.block_size);
    if (!admits(room, needed)) return;
    entry.reserved_pages = needed;
    entry.record.begin(slots_.take(1)->front());
    active_.push_back(&entry);
    queue_.pop_front();
  }
}

void SchedulerState::submit_plans(Effects& effects) {
  while (!lost_ && static_cast<std::int32_t>(in_flight_.size()) < limits_.max_plans_in_flight) {
    auto plan = next_plan();
    if (plan == nullptr) return;
    effects.emplace_back(SubmitPlan{std::move(plan)});
  }
}

std::unordered_map<SequenceId, SchedulerState::Ahead> SchedulerState::ahead() const {
  std::unordered_map<SequenceId, Ahead> by_id;
  for (const auto& plan : in_flight_) {
    for (const auto& feed : plan.feeds) {
      const auto entry = entries_.find(feed.id);
      if (entry == entries_.end() || entry->second.record.plan_epoch() != feed.plan_epoch) continue;
      auto& ahead = by_id[feed.id];
      ahead.rows += feed.rows;
      ahead.samples += feed.samples;
      if (feed.samples > 0) ahead.newest_sample = {plan.number, feed.first_sample};
    }
  }
  return by_id;
}

std::shared_ptr<const model::StepPlan> SchedulerState::next_plan() {
  const auto ahead_of = ahead();
  const auto ahead_by_id = [&](SequenceId id) {
    const auto place = ahead_of.find(id);
    return place == ahead_of.end() ? Ahead{} : place->second;
  };
  std::vector<Candidate> candidates;
  candidates.reserve(active_.size());
  for (const auto* active : active_) {
    const auto& entry = *active;
    const auto& record = entry.record;
    const auto ahead = ahead_by_id(record.id());
    Candidate c;
    c.fed = record.fed() + ahead.rows;
    c.prompt_tokens = record.prompt_tokens();
    c.known = record.num_tokens();
    c.samples_in_flight = ahead.samples;
    const auto sampled = record.generated() + ahead.samples;
    c.samples_allowed = std::min(record.samples_left() - ahead.samples,
                                 entry.acknowledged + limits_.max_tokens_ahead - sampled);
    c.prompt_logits = entry.prompt_logprobs;
    c.paused = entry.paused;
    c.needs_committed = !record.bans_at(sampled).empty();
    candidates.push_back(c);
  }

  const auto planned = plan_step(candidates, {limits_.chunk_width, limits_.prompt_logits_rows});
  if (planned.empty()) return nullptr;

  auto plan = std::make_shared<model::StepPlan>();
  plan->number = ++last_number_;
  plan->feeds.reserve(planned.size());
  PlanInFlight in_flight{plan->number, {}};
  in_flight.feeds.reserve(planned.size());
  std::int32_t num_rows = 0;  // with logits
  for (const auto& feed : planned) {
    auto& entry = *active_[feed.candidate];
    if (feed.first == 0) plan->resets.push_back(entry.record.slot());
    plan->feeds.push_back(make_feed(entry, feed, ahead_by_id(entry.record.id()), plan->number));
    const std::int32_t samples = feed.samples ? 1 : 0;
    const auto given = static_cast<std::int32_t>(plan->feeds.back().given.size());
    in_flight.feeds.push_back(
        {entry.record.id(), entry.record.plan_epoch(), feed.width, samples, given, num_rows + given});
    num_rows += given + samples;
  }
  in_flight_.push_back(std::move(in_flight));
  return plan;
}

model::Feed SchedulerState::make_feed(Entry& entry, const PlannedFeed& planned, const Ahead& ahead,
                                      model::StepNumber number) {
  auto& record = entry.record;
  entry.last_plan = number;

  model::Feed feed;
  feed.id = record.id();
  feed.plan_epoch = record.plan_epoch();
  feed.slot = record.slot();
  feed.form = planned.form;
  feed.first = planned.first;
  feed.prompt_tokens = record.prompt_tokens();
  if (planned.from_in_flight) {
    feed.from_step_in_flight = ahead.newest_sample;
  } else {
    const auto begin = record.tokens().begin() + planned.first;
    feed.known.assign(begin, begin + planned.width);
  }
  const auto pages_held = static_cast<std::int32_t>(record.pages().size());
  const auto pages_needed = pages_for(planned.first + planned.width, limits_.block_size);
  if (pages_needed > pages_held) {
    feed.new_pages = *pages_.take(pages_needed - pages_held);  // reserved at admission
    record.grant(feed.new_pages);
  }
  if (entry.prompt_logprobs && planned.form == kernels::Form::prefill) {
    const auto next = record.tokens().begin() + planned.first + 1;
    feed.given.assign(next, next + planned.width - (planned.samples ? 1 : 0));
  }
  const auto num_given = static_cast<std::int32_t>(feed.given.size());
  const std::int32_t num_logits = num_given + (planned.samples ? 1 : 0);
  if (num_logits > 0) {
    feed.logits = {planned.width - num_logits, num_logits};
    feed.sampling = record.sampling();
  }
  if (planned.samples) {
    feed.bans = record.bans_at(record.generated() + ahead.samples);
  }
  return feed;
}

SchedulerState::Load SchedulerState::load() const {
  return {static_cast<std::int32_t>(active_.size()), static_cast<std::int32_t>(queue_.size()), pages_.used(),
          pages_.total()};
}

const model::SequenceRecord* SchedulerState::find(SequenceId id) const {
  const auto place = entries_.find(id);
  return place == entries_.end() ? nullptr : &place->second.record;
}

}  // namespace actors
