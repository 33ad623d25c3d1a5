#include "actors/sequence/repetition_ladder.h"

#include <gtest/gtest.h>

#include "actors/overloaded.h"

namespace actors {
namespace {

using model::Position;
using model::repetition::Tail;

std::string name(DeclineReason why) {
  constexpr const char* kNames[] = {"Disabled",   "CapReached",    "NoBoundary",
                                    "NoSnapshot", "NoAuxSnapshot", "AlreadySent"};
  return kNames[static_cast<int>(why)];
}
/// What the ladder says to an event, in words.
std::string told(RepetitionLadder& ladder, const LadderEvent& event) {
  std::string all;
  for (const auto& effect : ladder.step(event)) {
    all += (all.empty() ? "" : ", ") +
           std::visit(overloaded{
                          [](const AskCapture&) -> std::string { return "ask"; },
                          [](const ReleaseRing&) -> std::string { return "release ring"; },
                          [](const HoldEvents&) -> std::string { return "hold"; },
                          [](const StartHoldTimer& e) { return "timer " + std::to_string(e.hold); },
                          [](const ReleaseEvents& e) { return "send " + std::to_string(e.num_tokens); },
                          [](const ReleaseAllEvents&) -> std::string { return "send all"; },
                          [](const RollBackTo& e) {
                            return "back to " + std::to_string(e.k) + " ban at " +
                                   std::to_string(e.banned_at) + " as " + std::to_string(e.banned_back) +
                                   " ago";
                          },
                          [](const ForgetSince& e) { return "forget since " + std::to_string(e.k); },
                          [](const CountHit&) -> std::string { return "hit"; },
                          [](const CountRollback& e) { return e.declined ? name(*e.declined) : "done"; },
                          [](const StopForRepetition&) -> std::string { return "stop"; },
                      },
                      effect);
  }
  return all;
}

LadderSettings settings(Delivery delivery) {
  LadderSettings s;
  s.rolls_back = true;
  s.delivery = delivery;
  return s;
}
const LadderSettings kStream = settings(Delivery::at_once), kWhole = settings(Delivery::at_the_end);

/// A tail of period 4 that began with token 100: suspicious with 124 tokens, a loop with 164.
constexpr Position kBegin = 100, kSuspect = 124, kFire = 164;
TokenSeen looping(Position num_tokens, std::int32_t period = 4, std::int32_t fires_at = 64) {
  const auto tokens = num_tokens - kBegin;
  return {num_tokens, Tail{period, tokens, std::max(fires_at - tokens, 0)}, true};
}
TokenSeen quiet(Position num_tokens) { return {num_tokens, std::nullopt, true}; }
void see_until(RepetitionLadder& ladder, Position from, Position to) {
  for (Position n = from; n < to; ++n) EXPECT_EQ(told(ladder, looping(n)), "") << n;
}

TEST(RepetitionLadder, AStreamGoesBackToTheSuspicionPointAndSteers) {
  RepetitionLadder ladder(kStream);
  EXPECT_EQ(told(ladder, quiet(kSuspect - 1)), "");
  EXPECT_EQ(told(ladder, looping(kSuspect)), "ask");
  EXPECT_EQ(told(ladder, looping(kSuspect + 1)), "");
  EXPECT_EQ(told(ladder, PointCaptured{kSuspect}), "hold, timer 1");
  see_until(ladder, kSuspect + 2, kFire);
  // Token 125 is the first after the point; token 163 is the latest, 38 later: two after one of its period.
  EXPECT_EQ(told(ladder, looping(kFire)), "hit, back to 124 ban at 125 as 2 ago");
  EXPECT_EQ(ladder.rolling_back_to(), kSuspect);
  EXPECT_EQ(told(ladder, looping(kFire + 1)), "");  // never was
  EXPECT_EQ(told(ladder, RollbackDone{}), "done, forget since 124, release ring, send all");
  EXPECT_EQ(ladder.rollbacks(), 1);
  EXPECT_TRUE(ladder.points().empty());
}

TEST(RepetitionLadder, WithoutAStreamAnOlderPointThatKeepsOnePeriodIsPreferred) {
  RepetitionLadder ladder(kWhole);
  EXPECT_EQ(told(ladder, PointCaptured{40}), "hold");
  EXPECT_EQ(told(ladder, PointCaptured{80}), "hold");
  EXPECT_EQ(told(ladder, PointCaptured{103}), "hold");  // keeps token 100…103: one period
  EXPECT_EQ(told(ladder, PointCaptured{108}), "hold");
  EXPECT_EQ(told(ladder, looping(kSuspect)), "ask");
  EXPECT_EQ(told(ladder, PointCaptured{kSuspect}), "hold, send 81");  // the oldest of five makes room
  EXPECT_EQ(told(ladder, looping(kFire)), "hit, back to 103 ban at 104 as 3 ago");
  EXPECT_EQ(told(ladder, RollbackDone{}), "done, forget since 103, release ring");
  EXPECT_EQ(ladder.points(), (std::vector<Position>{80, 103}));
}

TEST(RepetitionLadder, TheTokenThatEnteredTheLoopAgainIsBannedWhereItDid) {
  RepetitionLadder ladder(kWhole);
  told(ladder, PointCaptured{60});
  told(ladder, looping(kSuspect));
  told(ladder, PointCaptured{kSuspect});
  EXPECT_EQ(told(ladder, looping(kFire)), "hit, back to 60 ban at 104 as 3 ago");
}

TEST(RepetitionLadder, WithoutAnOlderPointTheSuspicionPointServesAWholeAnswerToo) {
  RepetitionLadder ladder(kWhole);
  told(ladder, PointCaptured{106});  // within the loop
  told(ladder, looping(kSuspect));
  told(ladder, PointCaptured{kSuspect});
  EXPECT_EQ(told(ladder, looping(kFire)), "hit, back to 124 ban at 125 as 2 ago");
}

TEST(RepetitionLadder, AfterMaxRollbacksTheLoopIsTheEnd) {
  for (const auto& s : {kStream, kWhole}) {
    RepetitionLadder ladder(s);
    for (const Position again : {kSuspect, kSuspect + 16}) {
      EXPECT_EQ(told(ladder, looping(again)), "ask");
      told(ladder, PointCaptured{again});
      told(ladder, looping(kFire));
      told(ladder, RollbackDone{});
    }
    EXPECT_EQ(told(ladder, looping(kSuspect + 32)), "");  // nothing is asked for that could not be used
    EXPECT_EQ(told(ladder, PointCaptured{kSuspect}), "");
    EXPECT_EQ(told(ladder, looping(kFire)), "hit, CapReached, stop");
    EXPECT_EQ(told(ladder, looping(kFire + 1)), "");
    EXPECT_EQ(ladder.rollbacks(), 2);
  }
}

TEST(RepetitionLadder, EveryDeclineIsCountedAndBecomesTheStop) {
  auto off = kStream, none = kStream;
  off.rolls_back = false;
  none.max_rollbacks = 0;
  const struct {
    const char* what;
    LadderSettings settings;
    std::vector<LadderEvent> events;  // up to the token that fires
    std::string want;
  } cases[] = {
      {"off", off, {looping(kSuspect)}, "hit, Disabled, stop"},
      {"none allowed", none, {looping(kSuspect)}, "hit, CapReached, stop"},
      {"asked and not captured yet", kStream, {looping(kSuspect)}, "hit, NoBoundary, stop"},
      {"no slot",
       kStream,
       {looping(kSuspect), CaptureDeclined{DeclineReason::NoSnapshot}},
       "hit, NoSnapshot, stop"},
      {"a part failed",
       kStream,
       {looping(kSuspect), CaptureDeclined{DeclineReason::NoAuxSnapshot}},
       "hit, NoAuxSnapshot, stop"},
      {"no captures",
       kWhole,
       {looping(kSuspect), CaptureDeclined{DeclineReason::Disabled}},
       "hit, Disabled, stop"},
      {"held too long",
       kStream,
       {looping(kSuspect), PointCaptured{kSuspect}, HoldExpired{1}},
       "hit, AlreadySent, stop"},
  };
  for (const auto& c : cases) {
    RepetitionLadder ladder(c.settings);
    for (const auto& event : c.events) ladder.step(event);
    EXPECT_EQ(told(ladder, looping(kFire)), c.want) << c.what;
    EXPECT_EQ(told(ladder, looping(kFire + 1)), "") << c.what;
  }
  for (const auto why : {DeclineReason::Disabled, DeclineReason::NoSnapshot, DeclineReason::NoBoundary}) {
    RepetitionLadder ladder(kStream);
    told(ladder, looping(kSuspect));
    told(ladder, PointCaptured{kSuspect});
    told(ladder, looping(kFire));
    EXPECT_EQ(told(ladder, RollbackDeclined{why}), name(why) + ", stop");
    EXPECT_EQ(told(ladder, RollbackDone{}), "");
  }
}

TEST(RepetitionLadder, WithoutAStreamAFailedCaptureLeavesTheOlderPoints) {
  RepetitionLadder ladder(kWhole);
  told(ladder, PointCaptured{90});
  told(ladder, looping(kSuspect));
  EXPECT_EQ(told(ladder, CaptureDeclined{DeclineReason::NoAuxSnapshot}), "");
  EXPECT_EQ(told(ladder, looping(kFire)), "hit, back to 90 ban at 104 as 3 ago");
}

TEST(RepetitionLadder, PointsAreAtLeastSixteenTokensApart) {
  RepetitionLadder ladder(kWhole);
  told(ladder, PointCaptured{kSuspect - 5});
  for (Position n = kSuspect; n < kSuspect + 11; ++n) EXPECT_EQ(told(ladder, looping(n)), "") << n;
  EXPECT_EQ(told(ladder, looping(kSuspect + 11)), "ask");

  RepetitionLadder stream(kStream);
  EXPECT_EQ(told(stream, looping(kSuspect)), "ask");
  EXPECT_EQ(told(stream, quiet(kSuspect + 1)), "release ring");
  EXPECT_EQ(told(stream, looping(kSuspect + 15)), "");
  EXPECT_EQ(told(stream, looping(kSuspect + 16)), "ask");
}

TEST(RepetitionLadder, ASuspicionThatPassesSendsWhatWasHeldAndLetsTheRingGo) {
  RepetitionLadder stream(kStream);
  told(stream, looping(kSuspect));
  EXPECT_EQ(told(stream, quiet(kSuspect + 1)), "release ring");
  EXPECT_EQ(told(stream, looping(kSuspect + 16)), "ask");
  told(stream, PointCaptured{kSuspect + 16});
  EXPECT_EQ(told(stream, quiet(kSuspect + 17)), "release ring, send all");
  EXPECT_EQ(told(stream, quiet(kSuspect + 18)), "");
  EXPECT_EQ(told(stream, HoldExpired{1}), "");  // of a hold that is over

  RepetitionLadder whole(kWhole);
  told(whole, looping(kSuspect));
  told(whole, PointCaptured{kSuspect});
  EXPECT_EQ(told(whole, quiet(kSuspect + 2)), "release ring");
  EXPECT_EQ(whole.points(), std::vector<Position>{kSuspect});  // one of the ring from here on
}

TEST(RepetitionLadder, HeldEventsWaitForAtMost128TokensOrTheTimer) {
  const auto slow = [](Position n) { return looping(n, 32, 24 + 128); };
  RepetitionLadder by_tokens(kStream);
  EXPECT_EQ(told(by_tokens, slow(kSuspect)), "ask");
  EXPECT_EQ(told(by_tokens, PointCaptured{kSuspect - 1}), "hold, timer 1");
  for (Position n = kSuspect + 1; n < kSuspect + 128; ++n) EXPECT_EQ(told(by_tokens, slow(n)), "") << n;
  EXPECT_EQ(told(by_tokens, slow(kSuspect + 128)), "hit, back to 123 ban at 132 as 23 ago");

  RepetitionLadder never(kStream);  // the tail needs more than it seemed to at first
  told(never, slow(kSuspect));
  told(never, PointCaptured{kSuspect - 1});
  const auto slower = [](Position n) { return looping(n, 32, 400); };
  for (Position n = kSuspect + 1; n <= kSuspect + 128; ++n) EXPECT_EQ(told(never, slower(n)), "") << n;
  EXPECT_EQ(told(never, slower(kSuspect + 129)), "send all, release ring");
  EXPECT_EQ(told(never, slower(kBegin + 400)), "hit, AlreadySent, stop");

  RepetitionLadder by_time(kStream);
  told(by_time, looping(kSuspect));
  told(by_time, PointCaptured{kSuspect});
  EXPECT_EQ(told(by_time, HoldExpired{0}), "");
  EXPECT_EQ(told(by_time, HoldExpired{1}), "send all, release ring");
}

TEST(RepetitionLadder, AStreamDoesNotHoldWhatCouldNotBeTakenBackInTime) {
  RepetitionLadder stream(kStream), whole(kWhole);
  const auto numeric = looping(kSuspect, 4, 256);
  EXPECT_EQ(told(stream, numeric), "");
  EXPECT_EQ(told(stream, looping(kBegin + 256, 4, 256)), "hit, AlreadySent, stop");
  EXPECT_EQ(told(whole, numeric), "ask");
}

TEST(RepetitionLadder, LooksAwayInsideToolCallsAndGrammarForcedSpans) {
  RepetitionLadder ladder(kStream);
  auto forced = looping(kFire);
  forced.steerable = false;
  EXPECT_EQ(told(ladder, forced), "");
  told(ladder, looping(kSuspect));
  told(ladder, PointCaptured{kSuspect});
  EXPECT_EQ(told(ladder, forced), "release ring, send all");
}

TEST(RepetitionLadder, AStreamTakesNoPointThatItDidNotAskFor) {
  RepetitionLadder ladder(kStream);
  EXPECT_EQ(told(ladder, PointCaptured{40}), "");
  EXPECT_TRUE(ladder.points().empty());
  EXPECT_EQ(told(ladder, CaptureDeclined{DeclineReason::NoSnapshot}), "");
}

}  // namespace
}  // namespace actors
