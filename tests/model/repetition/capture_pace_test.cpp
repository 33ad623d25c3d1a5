#include "model/repetition/capture_pace.h"

#include <gtest/gtest.h>

#include "tests/model/text/tokenizer_fixture.h"

namespace model::repetition {
namespace {

TEST(CapturePace, ALinesEndIsAPointSixteenTokensAfterTheLastAndAnyTokenIsThirtyTwoAfter) {
  const TokenTraits traits(*text::mini_tokenizer());
  constexpr TokenId kLineFeed = 198, kSpace = 220;
  const struct {
    TokenId token;
    Position k;
    bool due;
  } cases[] = {{kLineFeed, 115, false}, {kLineFeed, 116, true}, {kLineFeed, 131, true},
               {kSpace, 116, false},    {kSpace, 131, false},   {kSpace, 132, true},
               {kSpace, 200, true},     {kLineFeed, 100, false}};
  for (const auto& c : cases)
    EXPECT_EQ(capture_is_due(&traits, c.token, c.k, 100), c.due) << c.token << ' ' << c.k;
  EXPECT_FALSE(capture_is_due(nullptr, kLineFeed, 131, 100));
  EXPECT_TRUE(capture_is_due(nullptr, kLineFeed, 132, 100));
}

}  // namespace
}  // namespace model::repetition
