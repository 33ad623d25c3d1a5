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
  int cancels = 0, accepted = 0, refused = 0, captures = 0, releases = 0, hits = 0;
  std::vector<RollBackSequence> rollbacks;
  std::vector<std::uint32_t> timers;
  std::vector<std::optional<DeclineReason>> outcomes;
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
                   [&](const CaptureSequence&) { ++o.captures; },
                   [&](const ReleaseSequencePoints&) { ++o.releases; },
                   [&](const RollBackSequence& e) { o.rollbacks.push_back(e); },
                   [&](const StartHoldTimer& e) { o.timers.push_back(e.hold); },
                   [&](const CountHit&) { ++o.hits; },
                   [&](const CountRollback& e) { o.outcomes.push_back(e.declined); },
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

// ---- repetition

TextSettings watched(Delivery delivery, std::vector<std::string> stop = {}) {
  auto s = settings(std::move(stop));
  s.prompt_tokens = 10;
  s.watch.emplace();
  s.watch->ladder.rolls_back = true;
  s.watch->ladder.delivery = delivery;
  return s;
}
/// One token a message, as steps bring them.
void say(SequenceTextState& state, Outcome& o, std::string_view text, model::Epoch epoch = 0) {
  for (const char c : text) {
    auto one = tokens(std::string(1, c));
    one.token_epoch = epoch;
    collect(o, state.step(one));
  }
}
std::string times(int n, std::string_view what) {
  std::string text;
  for (int i = 0; i < n; ++i) text += what;
  return text;
}

TEST(SequenceState, ALoopIsTheEndWhereNothingMayBeRolledBack) {
  auto s = watched(Delivery::at_once);
  s.watch->ladder.rolls_back = false;
  SequenceTextState state(s);
  Outcome o;
  say(state, o, "once:" + times(40, "abc "));
  EXPECT_EQ(o.text, "once:" + times(16, "abc "));
  ASSERT_EQ(o.ends.size(), 1U);
  EXPECT_EQ(o.ends[0].end.reason, FinishReason::length);
  EXPECT_EQ(o.ends[0].end.stop_details, "repetition");
  EXPECT_EQ(o.ends[0].completion_tokens, 5 + 64);
  EXPECT_EQ(o.finished, std::vector<std::int32_t>{5 + 64});
  EXPECT_EQ(o.hits, 1);
  EXPECT_EQ(o.outcomes, std::vector<std::optional<DeclineReason>>{DeclineReason::Disabled});
}

TEST(SequenceState, WithoutAWatchALoopIsTheModelsOwnOutput) {
  SequenceTextState state(settings());
  Outcome o;
  say(state, o, times(400, "ab"));
  EXPECT_EQ(o.text, times(400, "ab"));
  EXPECT_TRUE(o.ends.empty());
}

TEST(SequenceState, AStreamIsRolledBackToItsSuspicionPointAndNothingOfTheRestIsSaidOrBilled) {
  SequenceTextState state(watched(Delivery::at_once));
  Outcome o;
  say(state, o, "once:" + times(6, "abc "));
  EXPECT_EQ(o.captures, 1);
  collect(o, state.step(Captured{10 + 29 - 1, 0, 0}));
  EXPECT_EQ(o.timers, std::vector<std::uint32_t>{1});
  say(state, o, times(10, "abc "));
  EXPECT_EQ(o.text, "once:" + times(6, "abc "));  // the rest is held
  ASSERT_EQ(o.rollbacks.size(), 1U);
  EXPECT_EQ(o.rollbacks[0].boundary, 38);
  EXPECT_EQ(o.rollbacks[0].tokens_seen, 69);
  EXPECT_EQ(o.rollbacks[0].banned_at, 39);
  EXPECT_EQ(o.rollbacks[0].banned, 'a');
  say(state, o, "abc ");  // sampled meanwhile
  collect(o, state.step(RolledBack{38, 1}));
  say(state, o, "late");  // of the old epoch
  say(state, o, "and on", 1);
  EXPECT_EQ(o.text, "once:" + times(6, "abc ") + "and on");
  EXPECT_EQ(o.counted, 35);
  EXPECT_EQ(o.ids.size(), 35U);
  EXPECT_EQ(o.outcomes, std::vector<std::optional<DeclineReason>>{std::nullopt});
  EXPECT_TRUE(o.ends.empty());
}

TEST(SequenceState, AWholeAnswerGoesBackToWhereOnePeriodIsKept) {
  SequenceTextState state(watched(Delivery::at_the_end));
  Outcome o;
  say(state, o, "once:");
  collect(o, state.step(Captured{10 + 5 - 1, 0, 0}));
  say(state, o, times(6, "abc "));
  collect(o, state.step(Captured{10 + 29 - 1, 1, 0}));
  say(state, o, times(10, "abc "));
  EXPECT_EQ(o.text, "once:");
  ASSERT_EQ(o.rollbacks.size(), 1U);
  EXPECT_EQ(o.rollbacks[0].boundary, 14);
  EXPECT_EQ(o.rollbacks[0].banned_at, 19);
  EXPECT_EQ(o.rollbacks[0].banned, 'a');
  collect(o, state.step(RolledBack{14, 1}));
  auto last = tokens("abc done", model::SequenceEnd{FinishReason::stop, {}, false});
  last.token_epoch = 1;
  collect(o, state.step(last));
  EXPECT_EQ(o.text, "once:abc done");
  EXPECT_EQ(o.ends[0].completion_tokens, 13);
}

TEST(SequenceState, ADeclinedRollbackSaysWhatWasHeldAndStops) {
  for (const bool ended_meanwhile : {false, true}) {
    SequenceTextState state(watched(Delivery::at_once));
    Outcome o;
    say(state, o, times(6, "abc "));
    collect(o, state.step(Captured{10 + 24 - 1, 0, 0}));
    say(state, o, times(10, "abc "));
    EXPECT_TRUE(o.ends.empty());
    if (ended_meanwhile) {
      collect(o, state.step(tokens("a", model::SequenceEnd{FinishReason::stop, {}, false})));
    } else {
      collect(o, state.step(Declined{Operation::rollback, DeclineReason::NoSnapshot}));
    }
    EXPECT_EQ(o.text, times(16, "abc "));
    ASSERT_EQ(o.ends.size(), 1U);
    EXPECT_EQ(o.ends[0].end.reason, FinishReason::length);
    EXPECT_EQ(o.ends[0].end.stop_details, "repetition");
    EXPECT_EQ(o.finished.size(), ended_meanwhile ? 0U : 1U);
    EXPECT_EQ(o.outcomes, std::vector<std::optional<DeclineReason>>{
                              ended_meanwhile ? DeclineReason::NoBoundary : DeclineReason::NoSnapshot});
  }
}

TEST(SequenceState, WhatEndsWhileItRepeatsIsNeitherStoppedNorTakenBack) {
  SequenceTextState state(watched(Delivery::at_once));
  Outcome o;
  say(state, o, times(6, "abc "));
  collect(o, state.step(Captured{10 + 24 - 1, 0, 0}));
  // The loop's last token is not the message's last.
  collect(o, state.step(tokens(times(12, "abc "), model::SequenceEnd{FinishReason::length, {}, false})));
  EXPECT_EQ(o.text, times(18, "abc "));
  ASSERT_EQ(o.ends.size(), 1U);
  EXPECT_EQ(o.ends[0].end.stop_details, "");
  EXPECT_TRUE(o.rollbacks.empty());
}

TEST(SequenceState, WhatIsHeldLeavesInOrderHoweverTheChoiceGoesOn) {
  const auto loop = times(7, "abc ");
  const struct {
    std::vector<SequenceEvent> events;
    std::string want;
  } cases[] = {
      {{HoldExpired{1}}, loop},
      {{tokens("x"), tokens("y")}, loop + "xy"},
      {{EndChoice{FinishReason::timeout, "request timeout"}}, loop},
      {{StepFailed{{"x"}}}, loop},
      {{tokens("x", model::SequenceEnd{FinishReason::stop, {}, false})}, loop + "x"},
  };
  for (const auto& c : cases) {
    SequenceTextState state(watched(Delivery::at_once));
    Outcome o;
    say(state, o, times(6, "abc "));
    collect(o, state.step(Captured{10 + 24 - 1, 0, 0}));
    say(state, o, "abc ");
    EXPECT_EQ(o.text, times(6, "abc "));
    for (const auto& event : c.events) collect(o, state.step(event));
    EXPECT_EQ(o.text, c.want);
    EXPECT_EQ(o.ids.size(), c.want.size());
  }
}

TEST(SequenceState, APointWhoseOtherHalfIsOfAnotherPlaceIsNone) {
  SequenceTextState state(watched(Delivery::at_once));
  Outcome o;
  say(state, o, times(6, "abc "));
  collect(o, state.step(Captured{10 + 24, 0, 0}));
  say(state, o, times(10, "abc "));
  EXPECT_EQ(o.outcomes, std::vector<std::optional<DeclineReason>>{DeclineReason::NoAuxSnapshot});
}

/// Everything a choice says, piece by piece.
std::vector<std::string> pieces(const std::vector<SequenceEffect>& effects) {
  std::vector<std::string> said;
  for (const auto& effect : effects) {
    if (const auto* text = std::get_if<SendText>(&effect)) {
      std::string piece = text->delta.text + "|" + text->delta.reasoning + "|" +
                          std::to_string(text->delta.completion_tokens);
      for (const auto& token : text->delta.tokens)
        piece += "," + std::to_string(token.token) + "@" + std::to_string(*token.logprob);
      said.push_back(std::move(piece));
    } else if (const auto* end = std::get_if<SendEnd>(&effect)) {
      said.push_back("end " + std::to_string(end->ended.completion_tokens) + " " +
                     std::to_string(end->ended.reasoning_tokens) + " " + end->ended.end.stop_details + " " +
                     std::to_string(static_cast<int>(end->ended.end.reason)));
    }
  }
  return said;
}

TEST(SequenceState, GoingOnFromASavedStateIsNeverHavingSeenWhatWasDropped) {
  std::uint64_t seed = 1;
  const auto random = [&](int most) {
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<int>((seed >> 33) % static_cast<std::uint64_t>(most));
  };
  // Split code points, beginnings of the stop string and of tags, loops.
  const std::vector<std::string> parts = {"a",
                                          "\xC3",
                                          "\xA9",
                                          "\xE2\x82",
                                          "\xAC",
                                          "\xF0\x9F",
                                          "sto",
                                          "p",
                                          "p",
                                          "st",
                                          "o",
                                          "<",
                                          "/think>",
                                          "<think>",
                                          "</thi",
                                          " ",
                                          "\n",
                                          "ab",
                                          "abababababababababababababab",
                                          "\xFF"};
  const auto stream = [&](int most) {
    std::string text;
    for (int n = random(most); n > 0; --n)
      text += parts[static_cast<std::size_t>(random(static_cast<int>(parts.size())))];
    return text;
  };
  int ended = 0, survived = 0;
  for (int round = 0; round < 1000; ++round) {
    auto s = settings({"stop", "\xE2\x82\xAC!"});
    s.prompt_tokens = 5;
    s.min_tokens = random(10);
    s.include_stop = random(2) == 0;
    s.reasoning = static_cast<Start>(random(3));
    s.watch.emplace();
    const std::string before = "x" + stream(30), dropped = stream(30), after = stream(60);
    const auto go = [&](SequenceTextState& state, std::string_view text) {
      std::vector<std::string> said;
      while (!text.empty()) {
        const auto width = std::min<std::size_t>(text.size(), 1 + static_cast<std::size_t>(text.size() % 3));
        for (auto& piece : pieces(state.step(tokens(text.substr(0, width)))))
          said.push_back(std::move(piece));
        text.remove_prefix(width);
      }
      return said;
    };
    SequenceTextState never(s), seen(s);
    ASSERT_EQ(go(never, before), go(seen, before));
    if (never.ended()) continue;
    const auto saved = seen.save();
    EXPECT_EQ(saved.num_tokens(), 5 + static_cast<int>(before.size()));
    go(seen, dropped);
    if (seen.ended()) continue;  // what ended cannot go back
    seen.restore(saved);
    const auto want = go(never, after), got = go(seen, after);
    ASSERT_EQ(want, got) << round;
    ended += never.ended() ? 1 : 0;
    survived += never.ended() ? 0 : 1;
    const EndChoice last{FinishReason::timeout, "t"};
    EXPECT_EQ(pieces(never.step(last)), pieces(seen.step(last)));
  }
  EXPECT_GT(ended, 20);
  EXPECT_GT(survived, 50);
}

}  // namespace
}  // namespace actors
