#include "actors/sequence/sequence_state.h"

#include <gtest/gtest.h>

#include "actors/overloaded.h"
#include "tests/actors/fakes.h"

namespace actors {
namespace {

using model::FinishReason;
using testing::ByteTokenizer;
using Start = model::text::ReasoningSplitter::Start;

TextSettings settings(std::vector<std::string> stop = {}) {
  TextSettings s;
  s.index = 3;
  s.tokenizer = std::make_shared<ByteTokenizer>();
  s.stop = std::move(stop);
  return s;
}
TokensReady tokens(std::string_view text, std::optional<model::SequenceEnd> end = std::nullopt) {
  TokensReady ready;
  for (const char c : text) ready.tokens.push_back({static_cast<unsigned char>(c), -0.5F, {}});
  ready.end = std::move(end);
  return ready;
}

struct Outcome {
  std::string text, reasoning;
  std::vector<model::TokenId> ids;
  std::int32_t counted = 0;
  std::vector<ChoiceEnded> ends;
  std::vector<std::int32_t> acknowledged, finished;
  int cancels = 0, accepted = 0, refused = 0;
};
void collect(Outcome& o, const std::vector<SequenceEffect>& effects) {
  for (const auto& effect : effects) {
    std::visit(overloaded{
                   [&](const TellAccepted&) { ++o.accepted; },
                   [&](const TellRefused&) { ++o.refused; },
                   [&](const SendText& e) {
                     EXPECT_TRUE(o.ends.empty()) << "text after the end";
                     EXPECT_EQ(e.delta.index, 3);
                     o.text += e.delta.text;
                     o.reasoning += e.delta.reasoning;
                     for (const auto& t : e.delta.tokens) o.ids.push_back(t.token);
                     o.counted = e.delta.completion_tokens;
                   },
                   [&](const SendEnd& e) { o.ends.push_back(e.ended); },
                   [&](const AcknowledgeTokens& e) { o.acknowledged.push_back(e.tokens_seen); },
                   [&](const FinishSequence& e) { o.finished.push_back(e.tokens_seen); },
                   [&](const CancelSequence&) { ++o.cancels; },
               },
               effect);
  }
}
Outcome run(TextSettings s, const std::vector<SequenceEvent>& events) {
  SequenceTextState state(std::move(s));
  Outcome o;
  for (const auto& event : events) collect(o, state.step(event));
  return o;
}

TEST(SequenceState, TokensBecomeTextAndTheEndComesOnce) {
  const auto o = run(
      settings(), {Accepted{}, tokens("ab"), tokens("c", model::SequenceEnd{FinishReason::length, {}, false}),
                   tokens("d"), EndChoice{FinishReason::timeout, ""}});
  EXPECT_EQ(o.accepted, 1);
  EXPECT_EQ(o.text, "abc");
  ASSERT_EQ(o.ends.size(), 1U);
  EXPECT_EQ(o.ends[0].end.reason, FinishReason::length);
  EXPECT_EQ(o.ends[0].end.index, 3);
  EXPECT_EQ(o.ends[0].completion_tokens, 3);
  EXPECT_EQ(o.cancels, 0);
}

TEST(SequenceState, TokensAfterAStopMatchAreNeitherCountedNorSent) {
  const auto o = run(settings({"wo thr"}), {tokens("one two"), tokens(" three four")});
  EXPECT_EQ(o.text, "one t");
  EXPECT_EQ(o.ids.size(), 11U);  // up to the token that completed the stop string
  EXPECT_EQ(o.counted, 11);
  ASSERT_EQ(o.ends.size(), 1U);
  EXPECT_EQ(o.ends[0].end.reason, FinishReason::stop);
  EXPECT_EQ(std::get<std::string>(o.ends[0].end.stop_reason), "wo thr");
  EXPECT_EQ(o.ends[0].completion_tokens, 11);
  EXPECT_EQ(o.finished, std::vector<std::int32_t>{11});
}

TEST(SequenceState, AStopStringInTheVeryLastTokenIsAStopAndTheSchedulerNeedsNoWord) {
  const auto o = run(settings({"c"}), {tokens("abc", model::SequenceEnd{FinishReason::length, {}, false})});
  EXPECT_EQ(o.text, "ab");
  EXPECT_EQ(o.ends[0].end.reason, FinishReason::stop);
  EXPECT_TRUE(o.finished.empty());
}

TEST(SequenceState, AHeldPrefixOfAStopStringIsTextWhenNothingMoreComes) {
  for (const SequenceEvent& last :
       {SequenceEvent(tokens("w", model::SequenceEnd{FinishReason::length, {}, false})),
        SequenceEvent(EndChoice{FinishReason::timeout, "request timeout"}),
        SequenceEvent(StepFailed{{"x"}})}) {
    const auto o = run(settings({"wo"}), {tokens("t"), tokens("aw"), last});
    EXPECT_EQ(o.text.substr(0, 3), "taw");
    EXPECT_EQ(o.ends.size(), 1U);
  }
}

TEST(SequenceState, StopStringsCountFromMinTokensOn) {
  auto s = settings({"b"});
  s.min_tokens = 3;
  EXPECT_EQ(run(s, {tokens("abcbd")}).text, "abc");
}

TEST(SequenceState, AStopStringThatBeginsWithinMinTokensAndEndsAfterThemCounts) {
  auto s = settings({"bcd"});
  s.min_tokens = 3;
  const auto o = run(s, {tokens("abcdef")});
  EXPECT_EQ(o.text, "a");
  ASSERT_EQ(o.ends.size(), 1U);
  EXPECT_EQ(std::get<std::string>(o.ends[0].end.stop_reason), "bcd");
  EXPECT_EQ(o.ends[0].completion_tokens, 4);
}

Echo echo_of(std::string_view prompt, bool logprobs) {
  return {std::string(prompt),
          std::make_shared<const std::vector<model::TokenId>>(prompt.begin(), prompt.end()), logprobs};
}

TEST(SequenceState, AnEchoedPromptComesOnceBeforeItsAnswerAndIsNotCounted) {
  auto s = settings({"x"});
  s.echo = echo_of("xy", false);
  const auto o = run(s, {tokens("a"), tokens("bx")});
  EXPECT_EQ(o.text, "xyab");  // a stop string in the prompt is no stop
  EXPECT_EQ(o.ids.size(), 3U);
  EXPECT_EQ(o.ends[0].completion_tokens, 3);
}

TEST(SequenceState, AnEchoedPromptHasTheLikelihoodOfEachTokenButItsFirst) {
  auto s = settings();
  s.echo = echo_of("abc", true);
  SequenceTextState state(s);
  TokensReady first;
  first.prompt = {{'b', -1.0F, {{'z', -0.5F}}}};
  EXPECT_TRUE(state.step(first).empty());  // the prompt is still being read
  auto second = tokens("d");
  second.prompt = {{'c', -2.0F, {}}};
  const auto effects = state.step(second);
  ASSERT_EQ(effects.size(), 1U);
  const auto& delta = std::get<SendText>(effects[0]).delta;
  EXPECT_EQ(delta.text, "abcd");
  EXPECT_EQ(delta.echoed, 3);
  EXPECT_EQ(delta.completion_tokens, 1);
  ASSERT_EQ(delta.tokens.size(), 4U);
  EXPECT_FALSE(delta.tokens[0].logprob);
  EXPECT_EQ(delta.tokens[1].logprob, -1.0F);
  EXPECT_EQ(delta.tokens[1].top.at(0).token, 'z');
  EXPECT_EQ(delta.tokens[2].logprob, -2.0F);
  EXPECT_EQ(delta.tokens[3].logprob, -0.5F);
}

TEST(SequenceState, WhatIsSampledIsDroppedWhenThePromptAloneWasAskedFor) {
  for (const bool ended : {false, true}) {
    auto s = settings();
    s.echo = echo_of("ab", true);
    s.generates = false;
    const auto o =
        run(s, {tokens("q", ended ? std::optional(model::SequenceEnd{FinishReason::stop, 'q', false})
                                  : std::nullopt)});
    EXPECT_EQ(o.text, "ab");
    EXPECT_EQ(o.ids.size(), 2U);
    ASSERT_EQ(o.ends.size(), 1U);
    EXPECT_EQ(o.ends[0].end.reason, FinishReason::length);
    EXPECT_EQ(o.ends[0].completion_tokens, 0);
    EXPECT_EQ(o.finished.size(), ended ? 0U : 1U);
  }
}

TEST(SequenceState, AnEchoedPromptComesEvenWhenNothingIsGenerated) {
  auto s = settings();
  s.echo = echo_of("ab", false);
  EXPECT_EQ(run(s, {EndChoice{FinishReason::timeout, "request timeout"}}).text, "ab");
}

TEST(SequenceState, IncludeStopKeepsTheStringAndTheStopTokensText) {
  auto s = settings({"bc"});
  s.include_stop = true;
  EXPECT_EQ(run(s, {tokens("abcd")}).text, "abc");
  const model::SequenceEnd at_q{FinishReason::stop, 'q', true};
  EXPECT_EQ(run(s, {tokens("aq", at_q)}).text, "aq");
  const auto o = run(settings(), {tokens("aq", at_q)});
  EXPECT_EQ(o.text, "a");
  EXPECT_EQ(o.ids.size(), 2U);  // it was generated, and counts
  EXPECT_EQ(std::get<model::TokenId>(o.ends[0].end.stop_reason), 'q');
}

TEST(SequenceState, TheModelsOwnEndHasNoStopReason) {
  TokensReady ready = tokens("a");
  ready.tokens.push_back({ByteTokenizer::kEnd, 0.0F, {}});
  ready.end = model::SequenceEnd{FinishReason::stop, ByteTokenizer::kEnd, false};
  const auto o = run(settings(), {ready});
  EXPECT_EQ(o.text, "a");
  EXPECT_TRUE(std::holds_alternative<std::monostate>(o.ends[0].end.stop_reason));
}

TEST(SequenceState, ASplitCodePointWaitsAndBecomesAReplacementAtTheEnd) {
  SequenceTextState state(settings());
  Outcome o;
  collect(o, state.step(tokens("a\xC3")));
  EXPECT_EQ(o.text, "a");
  EXPECT_EQ(o.ids.size(), 2U);  // the id is there already
  collect(o, state.step(tokens("\xA9\xE2\x82")));
  EXPECT_EQ(o.text, "a\xC3\xA9");
  collect(o, state.step(EndChoice{FinishReason::timeout, ""}));
  EXPECT_EQ(o.text, "a\xC3\xA9\xEF\xBF\xBD");
}

TEST(SequenceState, ReasoningIsSplitAndItsTokensCounted) {
  auto s = settings();
  s.reasoning = Start::inside;
  const auto o = run(s, {tokens("why</think>because", model::SequenceEnd{FinishReason::length, {}, false})});
  EXPECT_EQ(o.reasoning, "why");
  EXPECT_EQ(o.text, "because");
  EXPECT_GE(o.ends[0].reasoning_tokens, 3);
  EXPECT_LE(o.ends[0].reasoning_tokens, 11);
}

TEST(SequenceState, AStepErrorIsNeverAStop) {
  const auto o = run(settings(), {tokens("ab"), StepFailed{{"logits not finite"}}});
  EXPECT_EQ(o.text, "ab");
  EXPECT_EQ(o.ends[0].end.reason, FinishReason::error);
  EXPECT_EQ(o.ends[0].error->what, "logits not finite");
}

TEST(SequenceState, EndChoiceCancelsInTheScheduler) {
  const auto o = run(settings(), {tokens("ab"), EndChoice{FinishReason::timeout, "request timeout"}});
  EXPECT_EQ(o.cancels, 1);
  EXPECT_EQ(o.ends[0].end.reason, FinishReason::timeout);
  EXPECT_EQ(o.ends[0].end.stop_details, "request timeout");
}

TEST(SequenceState, ARefusalEndsItWithoutAnEnd) {
  const auto o = run(settings(), {Refused{{}}, tokens("a")});
  EXPECT_EQ(o.refused, 1);
  EXPECT_TRUE(o.ends.empty());
  EXPECT_TRUE(o.text.empty());
}

TEST(SequenceState, TokensOfAnotherEpochAreDropped) {
  auto stale = tokens("x");
  stale.token_epoch = 1;
  EXPECT_EQ(run(settings(), {tokens("a"), stale, tokens("b")}).text, "ab");
}

TEST(SequenceState, AcknowledgesWellWithinTheWindow) {
  std::vector<SequenceEvent> events(40, tokens("a"));
  const auto o = run(settings(), events);
  EXPECT_EQ(o.acknowledged, (std::vector<std::int32_t>{8, 16, 24, 32, 40}));
}

TEST(SequenceState, WithoutATokenizerIdsAloneAreSent) {
  TextSettings s;
  s.index = 3;
  const auto o = run(s, {tokens("ab", model::SequenceEnd{FinishReason::length, {}, false})});
  EXPECT_EQ(o.text, "");
  EXPECT_EQ(o.ids, (std::vector<model::TokenId>{'a', 'b'}));
  EXPECT_EQ(o.ends.size(), 1U);
}

}  // namespace
}  // namespace actors
