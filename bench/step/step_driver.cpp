#include "bench/step/step_driver.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <numeric>

namespace bench {
namespace {

using Clock = std::chrono::steady_clock;

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

void fail(const std::vector<std::string>& problems) {
  for (const auto& problem : problems) std::fprintf(stderr, "step_bench: %s\n", problem.c_str());
  std::exit(1);
}

std::vector<model::TokenId> some_tokens(std::int32_t n, std::int32_t vocab) {
  std::vector<model::TokenId> ids(static_cast<std::size_t>(n));
  for (std::int32_t i = 0; i < n; ++i)
    ids[static_cast<std::size_t>(i)] =
        static_cast<model::TokenId>((std::int64_t{i} * 7919 + 11) % (vocab / 2));
  return ids;
}

Driver::Driver(model::Runner& runner, const model::ServePlan& plan)
    : runner_(runner), plan_(plan), sampling_(std::make_shared<model::SamplingParams>()) {
  sampling_->temperature = 0.0F;
}

void Driver::reset(std::int32_t num_sequences) {
  fed_.assign(static_cast<std::size_t>(num_sequences), 0);
  pages_.assign(static_cast<std::size_t>(num_sequences), 0);
  resets_.resize(static_cast<std::size_t>(num_sequences));
  std::iota(resets_.begin(), resets_.end(), 0);
}

StepTime Driver::prefill(std::int32_t slot, const std::vector<model::TokenId>& ids) {
  StepTime total;
  for (std::size_t at = 0; at < ids.size(); at += static_cast<std::size_t>(plan_.chunk_width)) {
    const auto end = std::min(ids.size(), at + static_cast<std::size_t>(plan_.chunk_width));
    model::StepPlan plan = next_plan();
    plan.feeds.push_back(feed(
        slot, model::Form::prefill,
        {ids.begin() + static_cast<std::ptrdiff_t>(at), ids.begin() + static_cast<std::ptrdiff_t>(end)}));
    if (end == ids.size()) with_logits(plan.feeds.back());
    const StepTime step = run(plan);
    total.wall += step.wall;
    total.cpu += step.cpu;
    total.row_hits += step.row_hits;
    total.row_misses += step.row_misses;
    total.row_wait += step.row_wait;
  }
  return total;
}

StepTime Driver::decode(std::int32_t batch) {
  std::vector<model::TokenId> tokens(static_cast<std::size_t>(batch));
  std::iota(tokens.begin(), tokens.end(), 17);
  return decode(tokens);
}

StepTime Driver::decode(const std::vector<model::TokenId>& tokens) {
  model::StepPlan plan = next_plan();
  for (std::int32_t slot = 0; slot < std::ssize(tokens); ++slot) {
    plan.feeds.push_back(feed(slot, model::Form::decode, {tokens[static_cast<std::size_t>(slot)]}));
    with_logits(plan.feeds.back());
  }
  return run(plan);
}

model::StepPlan Driver::next_plan() {
  model::StepPlan plan;
  plan.number = ++number_;
  plan.resets = std::exchange(resets_, {});
  return plan;
}

model::Feed Driver::feed(std::int32_t slot, model::Form form, std::vector<model::TokenId> ids) {
  model::Feed feed;
  feed.id = static_cast<model::SequenceId>(slot) + 1;
  feed.slot = slot;
  feed.form = form;
  auto& fed = fed_[static_cast<std::size_t>(slot)];
  feed.first = fed;
  fed += static_cast<std::int32_t>(ids.size());
  feed.known = std::move(ids);
  auto& pages = pages_[static_cast<std::size_t>(slot)];
  while (pages * plan_.block_size < fed) feed.new_pages.push_back(slot * plan_.pages_per_sequence + pages++);
  return feed;
}

void Driver::with_logits(model::Feed& feed) {
  feed.logits = {static_cast<std::int32_t>(feed.known.size()) - 1, 1};
  feed.sampling = sampling_;
  feed.prompt_tokens = feed.first;
}

StepTime Driver::run(const model::StepPlan& plan) {
  const double cpu_begin = cpu_seconds();
  const auto begin = Clock::now();
  auto result = runner_.step(plan);
  StepTime time{std::chrono::duration<double>(Clock::now() - begin).count(), cpu_seconds() - cpu_begin};
  if (!result.ok()) fail({result.error().what});
  for (const auto& outcome : result->outcomes) {
    if (!outcome.done.ok()) fail({outcome.done.error().what});
  }
  time.row_hits = result->stats.ple_hits;
  time.row_misses = result->stats.ple_misses;
  time.row_wait = result->stats.ple_waited;
  return time;
}

}  // namespace bench
