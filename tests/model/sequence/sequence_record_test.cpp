#include "model/sequence/sequence_record.h"

#include <gtest/gtest.h>

namespace model {
namespace {

SequenceLimits limits(std::int32_t max_tokens) {
  SequenceLimits limits;
  limits.max_tokens = max_tokens;
  limits.max_seq_len = 100;
  limits.eos_tokens = {90};
  limits.stop_tokens = {91};
  return limits;
}
SequenceRecord record(std::int32_t max_tokens = 10) { return {1, {5, 6, 7}, limits(max_tokens), nullptr}; }

FeedDone done(std::int32_t rows, std::vector<TokenId> sampled) {
  FeedDone done{rows, {}};
  for (const auto id : sampled) done.sampled.push_back({id, 0.0F, {}});
  return done;
}

TEST(SequenceRecord, APromptChunkIsFedAndStillPrefilling) {
  auto r = record();
  EXPECT_TRUE(std::holds_alternative<SequenceRecord::Waiting>(r.state()));
  r.begin(2);
  EXPECT_EQ(r.slot(), 2);
  EXPECT_TRUE(r.commit(done(2, {})).accepted.empty());
  EXPECT_TRUE(std::holds_alternative<SequenceRecord::Prefilling>(r.state()));
  EXPECT_EQ(r.fed(), 2);
}

TEST(SequenceRecord, WhileDecodingExactlyOneTokenIsKnownAndNotFed) {
  auto r = record();
  r.begin(0);
  r.commit(done(3, {11}));
  EXPECT_TRUE(std::holds_alternative<SequenceRecord::Decoding>(r.state()));
  EXPECT_EQ(r.fed(), r.num_tokens() - 1);
  r.commit(done(1, {12}));
  EXPECT_EQ(r.fed(), r.num_tokens() - 1);
  EXPECT_EQ(r.tokens(), (std::vector<TokenId>{5, 6, 7, 11, 12}));
  EXPECT_EQ(r.generated(), 2);
}

TEST(SequenceRecord, EndsByItsOwnLimits) {
  struct Case {
    std::vector<TokenId> sampled;
    std::int32_t max_tokens;
    std::optional<FinishReason> why;
    bool asked_for;
    std::size_t accepted;
  };
  const Case cases[] = {
      {{11}, 2, std::nullopt, false, 1},
      {{11}, 1, FinishReason::length, false, 1},
      {{90}, 2, FinishReason::stop, false, 1},
      {{91}, 2, FinishReason::stop, true, 1},
      {{90}, 1, FinishReason::stop, false, 1},          // a stop that comes with the last token is a stop
      {{90, 12, 13}, 9, FinishReason::stop, false, 1},  // nothing after it was accepted
      {{11, 12, 13}, 2, FinishReason::length, false, 2},
  };
  for (const auto& c : cases) {
    auto r = record(c.max_tokens);
    r.begin(0);
    const auto committed = r.commit(done(2 + static_cast<std::int32_t>(c.sampled.size()), c.sampled));
    EXPECT_EQ(committed.accepted.size(), c.accepted);
    ASSERT_EQ(committed.end.has_value(), c.why.has_value());
    if (c.why) {
      EXPECT_EQ(committed.end->why, *c.why);
      EXPECT_EQ(committed.end->asked_for, c.asked_for);
      EXPECT_TRUE(r.finished());
    }
  }
}

TEST(SequenceRecord, NeverGrowsBeyondTheContext) {
  for (const auto& [max_tokens, ever] : {std::pair{96, 99}, {97, 100}, {98, 100}, {1'000'000, 100}}) {
    EXPECT_EQ(record(max_tokens).max_tokens_ever(), ever);
  }
  auto r = record(1'000'000);
  r.begin(0);
  auto committed = r.commit(done(3, {1}));
  for (int i = 0; i < 96 && !committed.end; ++i) committed = r.commit(done(1, {1}));
  EXPECT_EQ(r.num_tokens(), 100);
  EXPECT_EQ(committed.end->why, FinishReason::length);
}

TEST(SequenceRecord, StopTokensAreBannedUntilTheMinimumIsReached) {
  auto l = limits(10);
  l.min_tokens = 2;
  const SequenceRecord r(1, {5}, l, nullptr);
  EXPECT_EQ(r.bans_at(0), (std::vector<TokenId>{90, 91}));
  EXPECT_EQ(r.bans_at(1), (std::vector<TokenId>{90, 91}));
  EXPECT_TRUE(r.bans_at(2).empty());
}

TEST(SequenceRecord, FinishVoidsThePlansInFlightAndAbsorbsEverything) {
  auto r = record();
  r.begin(0);
  r.grant({4, 5});
  const auto epoch = r.plan_epoch();
  r.finish({FinishReason::cancelled, std::nullopt, false});
  EXPECT_EQ(r.plan_epoch(), epoch + 1);
  EXPECT_TRUE(r.commit(done(3, {11})).accepted.empty());
  r.finish({FinishReason::stop, std::nullopt, false});
  EXPECT_EQ(std::get<SequenceRecord::Finished>(r.state()).end.why, FinishReason::cancelled);
  EXPECT_EQ(r.plan_epoch(), epoch + 1);
  EXPECT_EQ(r.take_pages(), (std::vector<PageId>{4, 5}));
  EXPECT_TRUE(r.pages().empty());
}

}  // namespace
}  // namespace model
