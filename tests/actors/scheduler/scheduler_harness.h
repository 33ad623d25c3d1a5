#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "actors/overloaded.h"
#include "actors/scheduler/scheduler_state.h"
#include "tests/actors/fake_device.h"

namespace actors::testing {

/// A scheduler and a device with nothing between them: events in, plans run when the test says so, the books
/// checked after every transition.
class SchedulerHarness {
 public:
  struct Listener {
    bool accepted = false;
    std::optional<model::RequestError> refused;
    std::vector<model::TokenId> tokens;
    std::vector<model::TokenId> prompt;  ///< told of, with their likelihood
    std::optional<model::SequenceEnd> end;
    std::optional<model::StepError> failed;
    std::vector<Declined> declined;
  };

  explicit SchedulerHarness(SchedulerLimits limits, FakeDevice::Sampler sampler = next_letter)
      : limits_(limits), state_(limits), device_(limits.block_size, std::move(sampler)) {}

  std::vector<SchedulerEffect> send(const SchedulerEvent& event) {
    auto effects = state_.step(event);
    for (const auto& effect : effects) hear(effect);
    check_books();
    return effects;
  }
  void add(model::SequenceId id, std::int32_t prompt_tokens, std::int32_t max_tokens) {
    send(registration(id, prompt_tokens, max_tokens));
  }
  static Register registration(model::SequenceId id, std::int32_t prompt_tokens, std::int32_t max_tokens) {
    Register r;
    r.id = id;
    std::vector<model::TokenId> prompt(static_cast<std::size_t>(prompt_tokens),
                                       'a' + static_cast<model::TokenId>(id % 26));
    r.prompt = std::make_shared<const std::vector<model::TokenId>>(std::move(prompt));
    r.limits.max_tokens = max_tokens;
    r.limits.max_seq_len = 100'000;
    r.sampling = std::make_shared<const model::SamplingParams>();
    return r;
  }
  /// The device runs the oldest plan and its answer arrives. False when there is none.
  bool finish_step() {
    if (plans_.empty()) return false;
    send(answer());
    return true;
  }
  /// The device ran; the answer is still on its way.
  StepDone answer() {
    const auto plan = plans_.front();
    plans_.pop_front();
    return {std::make_shared<const model::StepResult>(device_.run(*plan))};
  }
  void run(int steps = 10'000) {
    for (int i = 0; i < steps && finish_step(); ++i) {
    }
  }
  void acknowledge_all() {
    for (const auto& [id, heard] : listeners)
      send(Acknowledge{id, 0, static_cast<std::int32_t>(heard.tokens.size())});
  }

  void check_books() {
    const auto& pages = state_.pages();
    const auto& slots = state_.slots();
    EXPECT_EQ(pages.free() + pages.used() + pages.quarantined(), pages.total());
    EXPECT_EQ(slots.free() + slots.used() + slots.quarantined(), slots.total());
    EXPECT_LE(static_cast<std::int32_t>(state_.plans_in_flight()), limits_.max_plans_in_flight);
    EXPECT_EQ(device_.breaches(), std::vector<std::string>{});
  }

  SchedulerState& state() { return state_; }
  FakeDevice& device() { return device_; }
  std::deque<std::shared_ptr<const model::StepPlan>>& plans() { return plans_; }
  std::map<model::SequenceId, Listener> listeners;
  std::vector<CanaryPlace> canaries;
  int canaries_skipped = 0;

 private:
  void hear(const SchedulerEffect& effect) {
    std::visit(overloaded{
                   [&](const SubmitPlan& e) { plans_.push_back(e.plan); },
                   [&](const ToSequence<Accepted>& e) { listeners[e.id].accepted = true; },
                   [&](const ToSequence<Refused>& e) { listeners[e.id].refused = e.message.error; },
                   [&](const ToSequence<TokensReady>& e) {
                     auto& heard = listeners[e.id];
                     EXPECT_FALSE(heard.end.has_value()) << "tokens after the end of " << e.id;
                     for (const auto& token : e.message.tokens) heard.tokens.push_back(token.token);
                     for (const auto& token : e.message.prompt) heard.prompt.push_back(token.token);
                     heard.end = e.message.end;
                   },
                   [&](const ToSequence<StepFailed>& e) { listeners[e.id].failed = e.message.error; },
                   [&](const ToSequence<Declined>& e) { listeners[e.id].declined.push_back(e.message); },
                   [&](const ReportBroken&) {},
                   [&](const SubmitCanary& e) { canaries.push_back(e.place); },
                   [&](const SkipCanary&) { ++canaries_skipped; },
               },
               effect);
  }

  SchedulerLimits limits_;
  SchedulerState state_;
  FakeDevice device_;
  std::deque<std::shared_ptr<const model::StepPlan>> plans_;
};

inline SchedulerLimits small_limits() {
  SchedulerLimits limits;
  limits.max_queue = 2;
  limits.max_batch_size = 2;
  limits.chunk_width = 128;
  limits.block_size = 16;
  limits.num_pages = 40;
  limits.num_state_slots = 2;
  return limits;
}

}  // namespace actors::testing
