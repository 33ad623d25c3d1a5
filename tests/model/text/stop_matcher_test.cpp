#include "model/text/stop_matcher.h"

#include <gtest/gtest.h>

#include <random>

namespace model::text {
namespace {

using Stops = std::vector<std::string>;

TEST(StopMatcher, WithoutStopStringsTextPassesAtOnce) {
  StopMatcher matcher;
  EXPECT_EQ(matcher.push("abc").text, "abc");
  EXPECT_EQ(matcher.held_bytes(), 0U);
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcher, APrefixIsHeldUntilItIsDecided) {
  StopMatcher matcher({"\nUser:"}, false);
  EXPECT_EQ(matcher.push("hello\nUs").text, "hello");
  EXPECT_EQ(matcher.held_bytes(), 3U);
  EXPECT_EQ(matcher.push("ually\n").text, "\nUsually");
  EXPECT_EQ(matcher.finish(), "\n");
  EXPECT_EQ(matcher.held_bytes(), 0U);
}

TEST(StopMatcher, AStopStringMaySpanPieces) {
  StopMatcher matcher({"STOP"}, false);
  EXPECT_EQ(matcher.push("a S").text, "a ");
  EXPECT_EQ(matcher.push("TO").text, "");
  const auto piece = matcher.push("P and more");
  EXPECT_EQ(piece.text, "");
  EXPECT_EQ(piece.matched, "STOP");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcher, IncludeStopEndsTheTextWithIt) {
  const auto piece = StopMatcher({"."}, true).push("One. Two.");
  EXPECT_EQ(piece.text, "One.");
  EXPECT_EQ(piece.matched, ".");
}

TEST(StopMatcher, TheEarliestEndWinsAndThenTheEarliestBegin) {
  const auto short_one = StopMatcher(Stops{"abcd", "bc"}, false).push("xabcd");
  EXPECT_EQ(short_one.matched, "bc");
  EXPECT_EQ(short_one.text, "xa");
  for (const Stops& stops : {Stops{"c", "bc", "abc"}, Stops{"abc", "bc", "c"}}) {
    const auto longest = StopMatcher(stops, false).push("xabc");
    EXPECT_EQ(longest.matched, "abc");
    EXPECT_EQ(longest.text, "x");
  }
}

TEST(StopMatcher, AnEmptyStopStringMatchesNothing) {
  const auto piece = StopMatcher({""}, false).push("abc");
  EXPECT_EQ(piece.text, "abc");
  EXPECT_EQ(piece.matched, std::nullopt);
}

TEST(StopMatcher, AnOccurrenceThatEndsInTextThatCannotEndIsTextAndOneThatBeginsThereCounts) {
  using Occurrence = StopMatcher::Occurrence;
  StopMatcher matcher({"abab"}, false);
  EXPECT_EQ(matcher.push("xabab", Occurrence::is_text).text, "xab");  // its end may begin another
  const auto piece = matcher.push("ab");
  EXPECT_EQ(piece.text, "");
  EXPECT_EQ(piece.matched, "abab");
  StopMatcher single({"b"}, true);
  EXPECT_EQ(single.push("abc", Occurrence::is_text).text, "abc");
  EXPECT_EQ(single.push("dbe").text, "db");
}

TEST(StopMatcher, ACopyGoesOnFromTheSamePlace) {
  StopMatcher matcher({"abab"}, false);
  matcher.push("ab");
  StopMatcher copy = matcher;
  EXPECT_EQ(matcher.push("x").text, "abx");
  EXPECT_TRUE(copy.push("ab").matched);
}

TEST(StopMatcher, RepetitiveTextAgainstRepetitiveStopsStaysLinear) {
  StopMatcher matcher({std::string(20000, 'a') + "b"}, false);
  std::size_t sent = 0;
  for (int i = 0; i < 200; ++i) sent += matcher.push(std::string(1000, 'a')).text.size();
  EXPECT_EQ(sent + matcher.held_bytes(), 200000U);
  EXPECT_EQ(matcher.held_bytes(), 20000U);
}

struct Outcome {
  std::string text;
  std::optional<std::string> matched;
};

/// The whole text at once, by the definition.
Outcome naive(const std::string& text, const Stops& stops, bool include) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    const std::string* best = nullptr;
    for (const auto& stop : stops)
      if (text.substr(0, end).ends_with(stop) && (best == nullptr || stop.size() > best->size()))
        best = &stop;
    if (best != nullptr) return {text.substr(0, include ? end : end - best->size()), *best};
  }
  return {text, std::nullopt};
}

TEST(StopMatcher, AnyCutsGiveWhatTheWholeTextGivesAndNoPrefixLeaks) {
  const auto word = [](std::mt19937& random, std::size_t max) {
    std::string out(1 + random() % max, 'a');
    for (char& c : out) c = static_cast<char>('a' + random() % 2);
    return out;
  };
  for (unsigned seed = 0; seed < 20000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    Stops stops;
    for (unsigned i = 0; i <= random() % 3; ++i) stops.push_back(word(random, 6));
    const std::string text = word(random, 30);
    const bool include = random() % 2 == 0;
    StopMatcher matcher(stops, include);
    Outcome got;
    for (std::size_t at = 0; at < text.size() && !got.matched;) {
      const std::size_t length = std::min<std::size_t>(random() % 5, text.size() - at);
      auto piece = matcher.push(text.substr(at, length));
      at += length;
      got.text += piece.text;
      got.matched = piece.matched;
      const std::string so_far = text.substr(0, at);
      if (!got.matched) {
        ASSERT_EQ(got.text.size() + matcher.held_bytes(), at);
        for (const auto& stop : stops) {  // what was sent could not have been the begin of a match
          for (std::size_t k = 1; k < stop.size(); ++k) {
            ASSERT_TRUE(k <= matcher.held_bytes() || !so_far.ends_with(stop.substr(0, k)));
          }
        }
      }
    }
    if (!got.matched) got.text += matcher.finish();
    const Outcome want = naive(text, stops, include);
    ASSERT_EQ(got.text, want.text);
    ASSERT_EQ(got.matched, want.matched);
  }
}

}  // namespace
}  // namespace model::text
