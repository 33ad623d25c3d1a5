#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "model/runner/step_plan.h"

namespace actors::testing {

/// A device without arithmetic: it keeps, per slot, the tokens that were fed, samples with a function of
/// them, and notes every breach of the plan's rules: a feed that does not begin where the last one ended, a
/// page that two sequences hold, a missing page, a form on the wrong side of the prompt.
class FakeDevice {
 public:
  using Sampler =
      std::function<model::TokenId(const std::vector<model::TokenId>& fed, const model::Feed& feed)>;
  explicit FakeDevice(std::int32_t block_size, Sampler sampler)
      : block_size_(block_size), sampler_(std::move(sampler)) {}

  model::StepResult run(const model::StepPlan& plan) {
    model::StepResult result;
    result.number = plan.number;
    for (const auto slot : plan.resets) slots_[slot] = Slot{};
    std::vector<model::TokenId> samples;
    bool decode_seen = false;
    std::set<model::SequenceId> ids;
    for (const auto& feed : plan.feeds) {
      expect(ids.insert(feed.id).second, "one feed per sequence", feed);
      expect(feed.form == model::Form::decode || !decode_seen, "prefill form comes first", feed);
      decode_seen = decode_seen || feed.form == model::Form::decode;
      result.outcomes.push_back(run(plan, feed, samples));
      auto& rows = feed.form == model::Form::decode ? result.stats.decode_rows : result.stats.prefill_rows;
      rows += width(feed);
    }
    samples_[plan.number] = samples;
    result.stats.seconds = 0.001;
    return result;
  }

  const std::vector<std::string>& breaches() const { return breaches_; }
  /// Sequences whose next feed fails with a step error.
  std::set<model::SequenceId> failing;

 private:
  struct Slot {
    std::vector<model::TokenId> fed;
    std::vector<model::PageId> pages;
    bool failed = false;  ///< nothing that is fed after a failure counts, until the reset
  };

  static std::int32_t width(const model::Feed& feed) {
    return feed.from_step_in_flight ? 1 : static_cast<std::int32_t>(feed.known.size());
  }

  model::FeedOutcome run(const model::StepPlan& plan, const model::Feed& feed,
                         std::vector<model::TokenId>& samples) {
    auto& slot = slots_[feed.slot];
    slot.failed = failing.erase(feed.id) > 0 || slot.failed;
    if (slot.failed) {
      if (feed.logits.count > 0) samples.push_back(0);
      return {feed.id, feed.plan_epoch, model::StepError{"injected"}};
    }
    expect(feed.first == static_cast<model::Position>(slot.fed.size()),
           "the feed begins where the slot ended", feed);
    auto known = feed.known;
    if (feed.from_step_in_flight) {
      expect(known.empty() && feed.from_step_in_flight->step < plan.number, "a row of an earlier step", feed);
      known = {samples_.at(feed.from_step_in_flight->step)
                   .at(static_cast<std::size_t>(feed.from_step_in_flight->row))};
    }
    check_form(feed, width(feed));
    take_pages(plan, feed, slot);
    slot.fed.insert(slot.fed.end(), known.begin(), known.end());
    const auto pages = (static_cast<std::int32_t>(slot.fed.size()) + block_size_ - 1) / block_size_;
    expect(static_cast<std::int32_t>(slot.pages.size()) == pages,
           "exactly the pages that the fed tokens need", feed);

    model::FeedDone done;
    done.rows = static_cast<std::int32_t>(known.size());
    if (feed.logits.count > 0) {
      const auto given = static_cast<std::int32_t>(feed.given.size());
      expect(feed.logits.first == done.rows - feed.logits.count, "the last rows have logits", feed);
      expect(feed.sampling != nullptr, "sampling parameters come with the row", feed);
      for (const auto token : feed.given) {
        samples.push_back(token);
        done.sampled.push_back({token, -1.0F, {}});
      }
      if (given == feed.logits.count) return {feed.id, feed.plan_epoch, std::move(done)};
      expect(feed.logits.count == given + 1, "one row is sampled", feed);
      const auto token = sampler_(slot.fed, feed);
      expect(std::find(feed.bans.begin(), feed.bans.end(), token) == feed.bans.end(), "no banned token",
             feed);
      samples.push_back(token);
      done.sampled.push_back({token, 0.0F, {}});
    }
    return {feed.id, feed.plan_epoch, std::move(done)};
  }

  void check_form(const model::Feed& feed, std::int32_t rows) {
    const auto end = feed.first + rows;
    if (feed.form == model::Form::prefill) {
      expect(end <= feed.prompt_tokens, "prefill form is for prompt positions", feed);
      expect(feed.first % 64 == 0, "a chunk begins on the grid", feed);
      expect(end % 64 == 0 || end == feed.prompt_tokens, "a chunk ends on the grid or with the prompt", feed);
      const auto sampled = feed.logits.count - static_cast<std::int32_t>(feed.given.size());
      expect((sampled == 1) == (end == feed.prompt_tokens), "only the last prompt row is sampled", feed);
    } else {
      expect(feed.first >= feed.prompt_tokens && rows == 1, "decode form is one generated position", feed);
      expect(feed.logits.count == 1, "a decode row is sampled", feed);
    }
  }

  /// A page given to one slot must not be in another slot's hands that this or a later step still feeds.
  void take_pages(const model::StepPlan& plan, const model::Feed& feed, Slot& slot) {
    for (const auto page : feed.new_pages) {
      for (const auto& other : plan.feeds) {
        if (other.id == feed.id) continue;
        const auto& held = slots_[other.slot].pages;
        expect(std::find(held.begin(), held.end(), page) == held.end(), "no page in two hands", feed);
      }
      slot.pages.push_back(page);
    }
  }

  void expect(bool holds, const char* rule, const model::Feed& feed) {
    if (!holds) {
      breaches_.push_back(std::string(rule) + ": sequence " + std::to_string(feed.id) + ", first " +
                          std::to_string(feed.first) + ", rows " + std::to_string(width(feed)));
    }
  }

  std::int32_t block_size_;
  Sampler sampler_;
  std::map<model::StateSlot, Slot> slots_;
  std::map<model::StepNumber, std::vector<model::TokenId>> samples_;
  std::vector<std::string> breaches_;
};

/// Lower-case letters, each one after the last fed token's: text a reader can check.
inline model::TokenId next_letter(const std::vector<model::TokenId>& fed, const model::Feed&) {
  const auto last = fed.back();
  return last >= 'a' && last < 'z' ? last + 1 : 'a';
}

/// A gate that a test holds shut: the step waits in it. Opening is for good.
class Gate {
 public:
  explicit Gate(bool open = true) : open_(open) {}
  void open() {
    {
      const std::lock_guard lock(mutex_);
      open_ = true;
    }
    changed_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
  }
  /// Until somebody stands before it.
  void await_visitor() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_ > 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_;
  int waiting_ = 0;
};

/// What a test may do to a running FakeExecutor from outside.
struct ExecutorControl {
  Gate load{false};                       ///< the factory waits here
  std::atomic<bool> stop_at_gate{false};  ///< steps wait at `step`
  Gate step{false};
  std::atomic<bool> stop_at_end{false};  ///< destroying the executor waits at `end`
  Gate end{false};
  std::atomic<bool> fatal{false};  ///< the next step loses the device
  std::atomic<bool> warm_up_fails{false};
  std::atomic<bool> step_error{false};  ///< every feed of the next step fails
  std::atomic<std::uint64_t> steps{0};
  std::mutex mutex;
  std::vector<std::string> breaches;
};

class FakeExecutor final : public model::StepExecutor {
 public:
  FakeExecutor(std::shared_ptr<ExecutorControl> control, std::int32_t block_size, FakeDevice::Sampler sampler)
      : control_(std::move(control)), device_(block_size, std::move(sampler)) {}
  ~FakeExecutor() override {
    if (control_->stop_at_end) control_->end.pass();
  }

  model::Result<model::StepResult, model::FatalError> step(const model::StepPlan& plan) override {
    const bool warm_up = plan.number == 0;
    if (!warm_up && control_->stop_at_gate) control_->step.pass();
    if (!warm_up && control_->fatal) return model::FatalError{"injected: device lost"};
    ++progress_;
    if (!warm_up) ++control_->steps;
    if (warm_up && control_->warm_up_fails) device_.failing.insert(0);
    if (!warm_up && control_->step_error.exchange(false)) {
      for (const auto& feed : plan.feeds) device_.failing.insert(feed.id);
    }
    auto result = device_.run(plan);
    const std::lock_guard lock(control_->mutex);
    control_->breaches = device_.breaches();
    return result;
  }
  std::uint64_t progress() const override { return progress_; }

 private:
  std::shared_ptr<ExecutorControl> control_;
  FakeDevice device_;
  std::atomic<std::uint64_t> progress_{0};
};

}  // namespace actors::testing
