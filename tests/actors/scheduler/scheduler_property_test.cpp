#include <gtest/gtest.h>

#include <random>
#include <set>

#include "tests/actors/scheduler/scheduler_harness.h"

namespace actors {
namespace {

using model::SequenceId;
using testing::SchedulerHarness;

/// What a sequence says when it is alone: the sampler looks at every fed token, so a token fed twice, not at
/// all or to the wrong slot shows.
model::TokenId checksum(const std::vector<model::TokenId>& fed, const model::Feed&) {
  std::uint32_t sum = 17;
  for (const auto id : fed) sum = sum * 31 + static_cast<std::uint32_t>(id);
  return static_cast<model::TokenId>(sum % 997);
}
std::vector<model::TokenId> alone(std::vector<model::TokenId> tokens, std::size_t count) {
  std::vector<model::TokenId> generated;
  for (std::size_t i = 0; i < count; ++i) {
    generated.push_back(checksum(tokens, {}));
    tokens.push_back(generated.back());
  }
  return generated;
}

struct Mix {
  std::uint32_t seed;
  std::int32_t depth;
};

/// Every sequence that is decoding and may be fed is in the plan that leaves.
void expect_a_row_for_everyone(SchedulerHarness& h, const std::set<SequenceId>& paused,
                               const model::StepPlan& plan, SequenceId newest) {
  std::set<SequenceId> fed;
  for (const auto& feed : plan.feeds) fed.insert(feed.id);
  for (SequenceId id = 1; id <= newest; ++id) {
    const auto* record = h.state().find(id);
    if (record == nullptr || paused.count(id) > 0 ||
        !std::holds_alternative<model::SequenceRecord::Decoding>(record->state()))
      continue;
    EXPECT_TRUE(fed.count(id) > 0) << "sequence " << id << " got no row in step " << plan.number;
  }
}

void run_mix(Mix mix) {
  std::mt19937 random(mix.seed);
  const auto pick = [&](int from, int to) {
    return from + static_cast<int>(random() % static_cast<unsigned>(to - from + 1));
  };
  auto limits = testing::small_limits();
  limits.max_queue = 1'000;
  limits.max_batch_size = limits.num_state_slots = pick(1, 6);
  limits.num_pages = pick(30, 120);
  limits.chunk_width = 64 * pick(1, 4);
  limits.max_plans_in_flight = mix.depth;
  SchedulerHarness h(limits, checksum);

  std::set<SequenceId> cancelled, failed, paused;
  std::map<SequenceId, Register> registrations;
  SequenceId newest = 0;
  for (int round = 0; round < 400; ++round) {
    switch (pick(0, 9)) {
      case 0:
      case 1: {
        const auto id = ++newest;
        if (pick(0, 9) == 0) {  // a cancel that overtakes
          h.send(Cancel{id});
          cancelled.insert(id);
        }
        registrations[id] = SchedulerHarness::registration(id, pick(1, 300), pick(1, 80));
        h.send(registrations[id]);
        break;
      }
      case 2:
        if (newest > 0) {
          const auto id = static_cast<SequenceId>(pick(1, static_cast<int>(newest)));
          if (h.state().find(id) != nullptr && !h.state().find(id)->finished()) cancelled.insert(id);
          if (registrations.count(id) > 0) h.send(Cancel{id});
        }
        break;
      case 3:
        if (newest > 0) {
          const auto id = static_cast<SequenceId>(pick(1, static_cast<int>(newest)));
          if (h.state().find(id)->finished()) break;
          h.send(Pause{id, 0});
          paused.insert(id);
        }
        break;
      case 4:
        for (const auto id : paused) h.send(Resume{id, 0});
        paused.clear();
        break;
      case 5:
        if (newest > 0 && pick(0, 5) == 0) {
          const auto id = static_cast<SequenceId>(pick(1, static_cast<int>(newest)));
          h.device().failing.insert(id);
          failed.insert(id);
        }
        break;
      default: {
        h.acknowledge_all();
        const auto before = h.plans().size();
        h.finish_step();
        if (mix.depth == 1 && before == 1 && h.plans().size() == 1) {
          expect_a_row_for_everyone(h, paused, *h.plans().back(), newest);
        }
      }
    }
  }
  for (const auto id : paused) h.send(Resume{id, 0});
  bool moved = true;
  for (int round = 0; round < 100'000 && moved; ++round) {
    h.acknowledge_all();
    moved = h.finish_step();
  }

  EXPECT_EQ(h.state().load().running, 0);
  EXPECT_EQ(h.state().load().waiting, 0);
  EXPECT_EQ(h.state().pages().free(), limits.num_pages);
  EXPECT_EQ(h.state().slots().free(), limits.num_state_slots);
  EXPECT_EQ(h.state().kept_cancels(), 0U);
  for (const auto& [id, registration] : registrations) {
    const auto& heard = h.listeners[id];
    EXPECT_EQ(heard.tokens, alone(*registration.prompt, heard.tokens.size())) << id;
    if (cancelled.count(id) > 0 || failed.count(id) > 0) continue;
    EXPECT_EQ(static_cast<std::int32_t>(heard.tokens.size()), registration.limits.max_tokens)
        << id;  // nobody starves
    EXPECT_EQ(heard.end->why, model::FinishReason::length);
  }
}

class SchedulerProperty : public ::testing::TestWithParam<std::int32_t> {};

TEST_P(SchedulerProperty, RandomSchedulesChangeNoTokenLoseNoPageAndStarveNobody) {
  for (std::uint32_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    run_mix({seed, GetParam()});
    if (::testing::Test::HasFailure()) return;
  }
}
INSTANTIATE_TEST_SUITE_P(PlansInFlight, SchedulerProperty, ::testing::Values(1, 2));

TEST(SchedulerProperty, EverySplitOfAPromptFeedsTheSameTokens) {
  for (const int chunks : {1, 2, 3, 5}) {
    auto limits = testing::small_limits();
    limits.chunk_width = 64 * chunks;
    limits.num_pages = 60;
    SchedulerHarness h(limits, checksum);
    for (const int prompt : {1, 63, 64, 65, 127, 128, 129, 500, 700}) {
      const auto id = static_cast<SequenceId>(prompt);
      h.add(id, prompt, 3);
      h.run();
      EXPECT_EQ(h.listeners[id].tokens, alone(*SchedulerHarness::registration(id, prompt, 3).prompt, 3))
          << prompt;
    }
  }
}

}  // namespace
}  // namespace actors
