#include "actors/gpu_stream/canary.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/actors/fake_device.h"
#include "tests/actors/fakes.h"

namespace actors {
namespace {

using model::TokenId;
using Tokens = std::vector<TokenId>;

/// A canary on a device whose rules are checked, in a slot and pages that are not the first.
struct Said {
  std::vector<std::int32_t> widths;  ///< of the prefill feeds
  std::vector<std::string> breaches;
  CanaryOutcome outcome;
};
Said run(const Canary& canary, testing::FakeDevice::Sampler sampler = testing::next_letter,
         std::function<void(testing::FakeDevice&, int step)> before = nullptr) {
  testing::FakeDevice device(canary.block_size, std::move(sampler));
  CanaryPlace place;
  place.slot = 2;
  place.pages.resize(static_cast<std::size_t>(canary.num_pages()));
  std::iota(place.pages.begin(), place.pages.end(), 7);
  Said run;
  int step = 0;
  run.outcome =
      run_canary(canary, place, model::kIdleCanaryStep,
                 [&](const model::StepPlan& plan) -> model::Result<model::StepResult, model::FatalError> {
                   EXPECT_EQ(plan.number, model::kIdleCanaryStep);
                   if (before) before(device, step);
                   ++step;
                   for (const auto& feed : plan.feeds) {
                     if (feed.form == model::Form::prefill)
                       run.widths.push_back(static_cast<std::int32_t>(feed.known.size()));
                   }
                   return device.run(plan);
                 });
  run.breaches = device.breaches();
  return run;
}

TEST(Canary, ReadsItsPromptOnceWholeAndOnceCutInTwo) {
  auto plan = testing::small_plan();
  const Canary canary = derive_canary(plan, std::nullopt);
  EXPECT_EQ(canary.prompt.size(), 80U);
  const Said said = run(canary);
  EXPECT_EQ(said.widths, (std::vector<std::int32_t>{80, 64, 16}));
  EXPECT_EQ(said.breaches, std::vector<std::string>{});
  ASSERT_TRUE(std::holds_alternative<Tokens>(said.outcome));
  EXPECT_EQ(std::get<Tokens>(said.outcome).size(), 4U);
  plan.chunk_width = 64;  // no chunk is wider
  EXPECT_EQ(run(derive_canary(plan, std::nullopt)).widths, (std::vector<std::int32_t>{64, 16, 64, 16}));
}

TEST(Canary, FitsWhateverContextThereIs) {
  for (const std::int32_t max_seq_len : {1, 2, 3, 5, 16, 64, 65, 68, 83, 84, 85, 256}) {
    SCOPED_TRACE(max_seq_len);
    auto plan = testing::small_plan();
    plan.max_seq_len = max_seq_len;
    const Canary canary = derive_canary(plan, std::nullopt);
    EXPECT_GE(canary.prompt.size(), 1U);
    EXPECT_GE(canary.num_tokens, 1);
    if (max_seq_len > 1) {
      EXPECT_LE(static_cast<std::int32_t>(canary.prompt.size()) + canary.num_tokens, max_seq_len);
    }
    const Said said = run(canary);
    EXPECT_TRUE(std::holds_alternative<Tokens>(said.outcome));
    EXPECT_EQ(said.breaches, std::vector<std::string>{});
  }
}

TEST(Canary, SaysWhatTheModelIsKnownToSayWhereThereIsRoom) {
  auto plan = testing::small_plan();
  const model::KnownAnswer known{{'a', 'b'}, {'c', 'd'}};
  EXPECT_EQ(std::get<Tokens>(run(derive_canary(plan, known)).outcome), (Tokens{'c', 'd'}));
  const auto wrong = run(derive_canary(plan, model::KnownAnswer{{'a', 'b'}, {'c', 'e'}})).outcome;
  EXPECT_EQ(std::get<CanaryWrong>(wrong).what, "tokens 99 100 where canary.json has 99 101");
  plan.max_seq_len = 3;
  EXPECT_TRUE(derive_canary(plan, known).expected.empty());
}

TEST(Canary, TokensThatDependOnTheCutAreWrong) {
  int samples = 0;
  const auto said = run(derive_canary(testing::small_plan(), std::nullopt),
                        [&](const auto&, const auto&) { return 'a' + (++samples == 6 ? 1 : 0); });
  EXPECT_EQ(std::get<CanaryWrong>(said.outcome).what,
            "the same prompt, cut otherwise, gave other tokens: 97 97 97 97, then 97 98 97 97");
}

TEST(Canary, AnErrorOfAnyOfItsStepsIsItsOwn) {
  for (const int failing : {0, 2, 4, 5, 7}) {
    const auto said = run(derive_canary(testing::small_plan(), std::nullopt), testing::next_letter,
                          [failing](testing::FakeDevice& device, int step) {
                            if (step == failing) device.failing.insert(0);
                          });
    ASSERT_TRUE(std::holds_alternative<CanaryWrong>(said.outcome)) << failing;
    EXPECT_EQ(std::get<CanaryWrong>(said.outcome).what, "injected");
  }
}

}  // namespace
}  // namespace actors
