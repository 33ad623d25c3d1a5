#include "bench/step/null_executor.h"

#include <sys/prctl.h>
#include <time.h>

#include <thread>
#include <utility>

namespace bench {

Reading read_process() {
  timespec cpu{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
  return {std::chrono::steady_clock::now(),
          static_cast<double>(cpu.tv_sec) + 1e-9 * static_cast<double>(cpu.tv_nsec)};
}

NullExecutor::NullExecutor(NullRun run, std::function<void(Reading)> opened,
                           std::function<void(Reading)> closed)
    : run_(std::move(run)), opened_(std::move(opened)), closed_(std::move(closed)) {
  prctl(PR_SET_TIMERSLACK, 1UL);  // a device is not late by the kernel's 50 microseconds
}

void NullExecutor::watch_window(const model::StepPlan& plan) {
  const bool full = static_cast<std::int32_t>(plan.feeds.size()) == run_.streams &&
                    plan.feeds.front().form == model::Form::decode;
  if (!full) return;
  if (full_steps_ == run_.warm_steps) opened_(read_process());
  if (full_steps_ == run_.warm_steps + run_.steps) closed_(read_process());
  ++full_steps_;
}

model::Result<model::StepResult, model::FatalError> NullExecutor::step(const model::StepPlan& plan) {
  const auto begin = std::chrono::steady_clock::now();
  watch_window(plan);
  model::StepResult result;
  result.number = plan.number;
  result.outcomes.reserve(plan.feeds.size());
  for (const auto& feed : plan.feeds) {
    model::FeedDone done;
    done.rows = feed.from_step_in_flight ? 1 : static_cast<std::int32_t>(feed.known.size());
    // By position, so that the canary hears the same twice.
    for (std::int32_t i = 0; i < feed.logits.count; ++i) {
      const auto position = static_cast<std::size_t>(feed.first + feed.logits.first + i);
      done.sampled.push_back({run_.vocabulary[position % run_.vocabulary.size()], 0.0F, {}});
    }
    (feed.form == model::Form::decode ? result.stats.decode_rows : result.stats.prefill_rows) += done.rows;
    result.outcomes.push_back({feed.id, feed.plan_epoch, std::move(done)});
  }
  std::this_thread::sleep_until(begin + run_.step);
  progress_.fetch_add(1, std::memory_order_relaxed);
  result.stats.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

}  // namespace bench
