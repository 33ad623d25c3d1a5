#include "model/text/detokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "model/text/unicode.h"
#include "tests/model/text/tokenizer_fixture.h"

namespace model::text {
namespace {

TEST(Detokenizer, ASplitCodePointWaitsForItsRest) {
  std::string pending = "a\xF0\x9F";
  EXPECT_EQ(take_complete_utf8(pending), "a");
  EXPECT_EQ(pending, "\xF0\x9F");
  pending += "\x98\x80z";
  EXPECT_EQ(take_complete_utf8(pending), "😀z");
  EXPECT_EQ(pending, "");
}

TEST(Detokenizer, ABrokenSequenceLeavesAsSoonAsItIsBroken) {
  std::string pending = "\xF0\x9F\x98z\xE2\x82";
  EXPECT_EQ(take_complete_utf8(pending), "\uFFFDz");
  EXPECT_EQ(pending, "\xE2\x82");
}

TEST(Detokenizer, IncompleteBytesBecomeOneReplacementCharacterAtTheEnd) {
  const auto tokenizer = mini_tokenizer();
  Detokenizer detokenizer(tokenizer, true);
  const auto ids = tokenizer->encode("\xF0\x9F\x98\x80");  // the mini vocabulary may spell it in bytes
  std::string text;
  for (std::size_t i = 0; i + 1 < ids.size(); ++i) text += detokenizer.push(ids[i]);
  if (ids.size() > 1) {
    EXPECT_EQ(text, "");
    EXPECT_EQ(detokenizer.finish(), "\uFFFD");
  }
  EXPECT_EQ(detokenizer.finish(), "");
}

TEST(Detokenizer, SpecialTokensAreSkippedOnRequest) {
  const auto tokenizer = mini_tokenizer();
  const TokenId end = tokenizer->added_token("<|im_end|>").value();
  EXPECT_EQ(Detokenizer(tokenizer, true).push(end), "");
  EXPECT_EQ(Detokenizer(tokenizer, false).push(end), "<|im_end|>");
  EXPECT_EQ(Detokenizer(tokenizer, true).push(tokenizer->added_token("<think>").value()), "<think>");
}

TEST(Detokenizer, ACopyGoesOnFromTheSamePlace) {
  const auto tokenizer = qwen3_tokenizer();
  const auto ids = tokenizer->encode("🜁");
  ASSERT_GT(ids.size(), 1U);
  Detokenizer one(tokenizer, true);
  one.push(ids[0]);
  Detokenizer copy = one;
  std::string first = one.finish(), rest;
  for (std::size_t i = 1; i < ids.size(); ++i) rest += copy.push(ids[i]);
  EXPECT_EQ(first, "\uFFFD");
  EXPECT_EQ(rest, "🜁");
}

TEST(Detokenizer, JoinedPiecesAreTheWholeTextAndEachIsValid) {
  for (const auto& tokenizer : {mini_tokenizer(), qwen3_tokenizer()}) {
    for (unsigned seed = 0; seed < 3000; ++seed) {
      SCOPED_TRACE(seed);
      std::mt19937 random(seed);
      std::vector<TokenId> ids;
      for (auto length = random() % 20; length > 0; --length) {
        const auto range = random() % 2 == 0
                               ? 256U
                               : static_cast<unsigned>(tokenizer->size());  // the first ids are single bytes
        ids.push_back(static_cast<TokenId>(random() % range));
      }
      const bool skip_special = random() % 2 == 0;
      Detokenizer detokenizer(tokenizer, skip_special);
      std::string joined;
      for (const TokenId id : ids) {
        const std::string piece = detokenizer.push(id);
        ASSERT_EQ(valid_utf8_prefix(piece), piece.size());
        joined += piece;
      }
      joined += detokenizer.finish();
      ASSERT_EQ(joined, tokenizer->decode(ids, skip_special));
    }
  }
}

}  // namespace
}  // namespace model::text
