#include <gtest/gtest.h>

#include "model_rig.h"

namespace model {
namespace {

using testing::fixture;
using testing::ModelRig;
using testing::RigOptions;

std::vector<TokenId> ids(std::int32_t count, std::int32_t seed) {
  std::vector<TokenId> made;
  for (std::int32_t i = 0; i < count; ++i) made.push_back((seed + i * i * 7 + i) % 250);
  return made;
}

ModelRig make_rig() {
  RigOptions options;
  options.poisoned = true;
  return {fixture("tiny-qwen4_exp"), options};
}

/// Prefills and decodes with penalties: `count` tokens.
std::vector<TokenId> penalised(ModelRig& rig, const std::vector<TokenId>& prompt, std::size_t count) {
  auto sampling = std::make_shared<SamplingParams>();
  sampling->temperature = 0.0F;
  sampling->presence_penalty = 1.5F;
  sampling->frequency_penalty = 0.5F;
  sampling->repetition_penalty = 1.4F;
  const auto with = [&](Feed feed) {
    feed.sampling = sampling;
    feed.prompt_tokens = static_cast<std::int32_t>(prompt.size());
    return feed;
  };
  const auto rows = static_cast<std::int32_t>(prompt.size());
  const auto reset = rig.begin(0);
  auto tokens = rig.run(with(rig.feed(0, Form::prefill, 0, prompt, rows - 1)), {reset});
  while (tokens.size() < count) {
    const auto fed = static_cast<Position>(prompt.size() + tokens.size()) - 1;
    tokens.push_back(rig.run(with(rig.feed(0, Form::decode, fed, {tokens.back()}, 0))).at(0));
  }
  return tokens;
}

TEST(SampledRows, PenaltiesKnowNothingOfTheSequenceThatHadTheSlotBefore) {
  ModelRig fresh = make_rig();
  const auto expected = penalised(fresh, ids(60, 3), 12);
  ModelRig used = make_rig();
  for (const std::int32_t before :
       {5, 60, 64}) {  // fewer ids than the next sequence begins with, as many, more
    penalised(used, ids(before, 90), 4);
    EXPECT_EQ(penalised(used, ids(60, 3), 12), expected) << before;
  }
}

TEST(SampledRows, GivenTokensAreReportedAndChangeNothing) {
  const auto prompt = ids(70, 11);
  ModelRig plain = make_rig();
  const auto expected = plain.generate(0, prompt, 6);

  ModelRig rig = make_rig();
  auto sampling = std::make_shared<SamplingParams>();
  sampling->temperature = 0.0F;
  sampling->num_logprobs = 3;
  const auto told = [&](Position first, std::int32_t rows, std::int32_t num_given) {
    Feed feed = rig.feed(0, Form::prefill, first, {prompt.begin() + first, prompt.begin() + first + rows}, 0);
    feed.given.assign(prompt.begin() + first + 1, prompt.begin() + first + 1 + num_given);
    feed.sampling = sampling;
    return feed;
  };
  const auto reset = rig.begin(0);
  const auto first = rig.step({told(0, 64, 64)}, {reset});
  EXPECT_EQ(ModelRig::sampled(first, 0), std::vector<TokenId>(prompt.begin() + 1, prompt.begin() + 65));
  for (const SampledToken& token : first.outcomes[0].done->sampled) {
    ASSERT_EQ(token.top.size(), 3U);
    EXPECT_LE(token.logprob, token.top[0].logprob);
    for (const TopLogprob& top : token.top) {
      EXPECT_EQ(top.token == token.token ? top.logprob : token.logprob, token.logprob);
    }
  }
  auto tokens = ModelRig::sampled(rig.step({told(64, 6, 5)}), 0);
  EXPECT_EQ(std::vector<TokenId>(tokens.begin(), tokens.end() - 1),
            std::vector<TokenId>(prompt.begin() + 65, prompt.end()));
  tokens = {tokens.back()};
  while (tokens.size() < 6) {
    const auto fed = static_cast<Position>(prompt.size() + tokens.size()) - 1;
    tokens.push_back(rig.run(rig.feed(0, Form::decode, fed, {tokens.back()}, 0)).at(0));
  }
  EXPECT_EQ(tokens, expected);
}

}  // namespace
}  // namespace model
