#include "model/repetition/detector.h"

#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "tests/fixture_path.h"
#include "tests/model/repetition/honest_texts.h"
#include "tests/model/repetition/loops.h"
#include "tests/model/text/tokenizer_fixture.h"

namespace model::repetition {
namespace {

using corpus::Random;
using Ids = std::vector<TokenId>;

std::shared_ptr<const TokenTraits> mini_traits() {
  static const auto traits = std::make_shared<const TokenTraits>(*text::mini_tokenizer());
  return traits;
}
Detector mini_detector() { return {Thresholds{}, mini_traits()}; }

/// How many tokens were seen when the tail became a loop.
std::optional<std::size_t> fires_after(Detector detector, const Ids& ids) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    detector.push(ids[i]);
    const auto tail = detector.tail();
    if (tail && tail->tokens_to_fire == 0) return i + 1;
  }
  return std::nullopt;
}
Ids repeated(const Ids& period, std::size_t tokens) {
  Ids ids;
  for (std::size_t i = 0; i < tokens; ++i) ids.push_back(period[i % period.size()]);
  return ids;
}
Ids counting(std::int32_t count) {
  Ids ids;
  for (TokenId i = 0; i < count; ++i) ids.push_back(1000 + i);
  return ids;
}

void expect_no_false_positive(const text::Tokenizer& tokenizer, std::uint64_t seed) {
  const Detector fresh(Thresholds{}, std::make_shared<const TokenTraits>(tokenizer));
  std::size_t texts = 0, tokens = 0;
  for (const auto& honest : corpus::honest_texts(seed)) {
    const auto ids = tokenizer.encode_ordinary(honest.text);
    const auto fired = fires_after(fresh, ids);
    EXPECT_FALSE(fired) << honest.name << " after " << fired.value_or(0) << " tokens:\n" << honest.text;
    ++texts;
    tokens += ids.size();
  }
  EXPECT_EQ(texts, corpus::honest_classes().size() * corpus::kTextsPerClass);
  EXPECT_GE(texts, 250U);
  std::printf("%zu honest texts, %zu tokens\n", texts, tokens);
}

void expect_loops_caught(const text::Tokenizer& tokenizer, std::uint64_t seed) {
  constexpr int kLoops = 400;
  const Detector fresh(Thresholds{}, std::make_shared<const TokenTraits>(tokenizer));
  int caught = 0;
  for (const auto& loop : corpus::loops(tokenizer, seed, kLoops)) {
    const auto fired = fires_after(fresh, loop.ids);
    const std::size_t least = loop.numeric ? 288 : 80;
    const std::size_t within = loop.begins + std::max(6 * loop.period, least);
    EXPECT_TRUE(!fired || *fired > loop.begins) << loop.name << " before it loops";
    if (fired && *fired <= within) {
      ++caught;
    } else {
      std::printf("missed: %s, began at %zu, seen after %zu, wanted within %zu\n", loop.name.c_str(),
                  loop.begins, fired.value_or(0), within);
    }
  }
  std::printf("%d of %d loops\n", caught, kLoops);
  EXPECT_GE(caught * 100, kLoops * 99);
}

TEST(RepetitionDetector, CatchesLoopsOfTheTuneSplit) {
  expect_loops_caught(*text::mini_tokenizer(), corpus::kTuneSeed);
}
TEST(RepetitionDetector, LeavesTheTuneSplitAlone) {
  expect_no_false_positive(*text::mini_tokenizer(), corpus::kTuneSeed);
}
TEST(RepetitionDetector, CatchesLoopsOfTheTestSplit) {
  expect_loops_caught(*text::mini_tokenizer(), corpus::kTestSeed);
}
TEST(RepetitionDetector, LeavesTheTestSplitAlone) {
  expect_no_false_positive(*text::mini_tokenizer(), corpus::kTestSeed);
}
TEST(RepetitionDetector, DoesTheSameWithALargeVocabulary) {
  expect_loops_caught(*text::qwen3_tokenizer(), corpus::kTestSeed);
  expect_no_false_positive(*text::qwen3_tokenizer(), corpus::kTestSeed);
}

TEST(RepetitionDetector, CatchesWhatTheEmbeddedModelReallyRepeats) {
  const auto cases =
      nlohmann::json::parse(text::read_fixture(tests::fixture_path("mini/forever.json")))["cases"];
  ASSERT_GE(cases.size(), 4U);
  for (const auto& one : cases) {
    const auto fired = fires_after(mini_detector(), one["tokens"].get<Ids>());
    ASSERT_TRUE(fired) << one["prompt"];
    EXPECT_LE(*fired, 70U) << one["prompt"];  // the phrase begins with another token once
  }
}

TEST(RepetitionDetector, FiresAtSixPeriodsAndSixtyFourTokensAndNotOneEarlier) {
  for (std::int32_t period = 1; period <= kLongestPeriod; ++period) {
    const auto at = static_cast<std::size_t>(std::max(6 * period, 64));
    const Detector words(Thresholds{}, nullptr);
    EXPECT_EQ(fires_after(words, repeated(counting(period), at + 5)), at) << period;
    EXPECT_FALSE(fires_after(words, repeated(counting(period), at - 1))) << period;
  }
  EXPECT_FALSE(fires_after(Detector({}, nullptr), repeated(counting(kLongestPeriod + 1), 2000)));
}

TEST(RepetitionDetector, APeriodThatIsMostlyDigitsAndPunctuationNeedsMoreTokens) {
  const auto tokenizer = text::mini_tokenizer();
  const auto fires = [&](std::string_view unit) {
    const auto period = tokenizer->encode_ordinary(unit);
    return fires_after(mini_detector(), repeated(period, 600)).value_or(0);
  };
  EXPECT_EQ(fires("0, "), 256U);
  EXPECT_EQ(fires("---|"), 256U);
  EXPECT_EQ(fires("\n"), 256U);
  EXPECT_EQ(fires(" no"), 64U);
  EXPECT_EQ(fires(" yes,"), 64U);
  EXPECT_EQ(fires("no.\n"), 64U);
}

TEST(RepetitionDetector, IsSuspiciousAtTwoPeriodsAndTwentyFourTokensUntilTheTailBreaks) {
  for (std::int32_t period = 1; period <= kLongestPeriod; ++period) {
    Detector detector({}, nullptr);
    const auto at = static_cast<std::size_t>(std::max(2 * period, 24));
    const auto ids = repeated(counting(period), at);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      EXPECT_FALSE(detector.tail()) << period;
      detector.push(ids[i]);
    }
    ASSERT_TRUE(detector.tail()) << period;
    EXPECT_EQ(detector.tail()->period, period);
    EXPECT_EQ(detector.tail()->tokens, static_cast<std::int32_t>(at));
    EXPECT_EQ(detector.tail()->tokens_to_fire, std::max(6 * period, 64) - static_cast<std::int32_t>(at));
    detector.push(7);
    EXPECT_FALSE(detector.tail()) << period;
  }
}

TEST(RepetitionDetector, ALongPeriodWithARunInsideIsNotTakenForTheRun) {
  Ids period = Ids(30, 5);
  for (const TokenId id : counting(10)) period.push_back(id);
  Detector detector({}, nullptr);
  const auto ids = repeated(period, 6 * 40);
  EXPECT_EQ(fires_after(detector, ids), ids.size());
  for (const TokenId id : repeated(period, 3 * 40 + 28)) detector.push(id);
  EXPECT_EQ(detector.tail()->period, 40);  // the run of 28 is suspicious, too
}

TEST(RepetitionDetector, ARequestsOwnThresholds) {
  Thresholds own;
  own.min_period = 2;
  own.max_period = 4;
  own.min_repeats = 3;
  own.min_tokens = own.min_tokens_numeric = 0;
  for (const std::int32_t period : {2, 3, 4}) {
    EXPECT_EQ(fires_after({own, nullptr}, repeated(counting(period), 40)),
              static_cast<std::size_t>(3 * period));
  }
  EXPECT_EQ(fires_after({own, nullptr}, repeated(counting(1), 40)), 6U);  // three times two
  EXPECT_FALSE(fires_after({own, nullptr}, repeated(counting(5), 400)));
}

TEST(RepetitionDetector, RememberedTokensAreTheLatestFirst) {
  Detector detector({}, nullptr);
  const auto ids = counting(200);
  for (const TokenId id : ids) detector.push(id);
  for (std::int32_t back = 0; back < kLongestPeriod; ++back) EXPECT_EQ(detector.recent(back), 1199 - back);
}

TEST(RepetitionDetector, ComingBackToACopyIsNeverHavingSeenTheTokensBetween) {
  Random random(5);
  for (int round = 0; round < 200; ++round) {
    const auto some = [&](int most) {
      Ids ids;
      const int period = random.between(1, 20);
      for (int n = random.between(0, most); n > 0; --n) {
        const bool repeats = ids.size() >= static_cast<std::size_t>(period) && random.between(0, 40) != 0;
        ids.push_back(repeats ? ids[ids.size() - static_cast<std::size_t>(period)] : random.between(0, 9));
      }
      return ids;
    };
    const auto before = some(200), dropped = some(200), after = some(300);
    auto never = mini_detector();
    for (const TokenId id : before) never.push(id);
    auto seen = never;
    const auto saved = std::make_shared<const Detector>(seen);
    for (const TokenId id : dropped) seen.push(id);
    seen = *saved;
    for (const TokenId id : after) {
      never.push(id);
      seen.push(id);
      const auto want = never.tail(), got = seen.tail();
      ASSERT_EQ(want.has_value(), got.has_value());
      if (!want) continue;
      EXPECT_EQ(want->period, got->period);
      EXPECT_EQ(want->tokens, got->tokens);
      EXPECT_EQ(want->tokens_to_fire, got->tokens_to_fire);
    }
  }
}

/// A bound far above the figure, so that a busy machine does not fail it: 1 ms is what a token may take to be
/// computed on the fastest device.
TEST(RepetitionDetector, CostsNothingBesideAToken) {
  const auto measure = [](const char* what, const Ids& ids) {
    auto detector = mini_detector();
    std::size_t suspicious = 0;
    const auto begin = std::chrono::steady_clock::now();
    for (int round = 0; round < 20; ++round) {
      for (const TokenId id : ids) {
        detector.push(id);
        suspicious += detector.tail().has_value() ? 1U : 0U;
      }
    }
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    const double each = took.count() / (20.0 * static_cast<double>(ids.size()));
    std::printf("%s: %.0f ns a token (%zu suspicious)\n", what, each, suspicious);
    EXPECT_LT(each, 20'000.0);
  };
  Random random(3);
  measure("prose", text::mini_tokenizer()->encode_ordinary(corpus::phrase(random, 20'000)));
  measure("a loop", repeated(counting(40), 20'000));
  std::printf("a copy: %zu bytes\n", sizeof(Detector));
}

}  // namespace
}  // namespace model::repetition
