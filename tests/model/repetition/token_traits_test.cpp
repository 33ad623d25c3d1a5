#include "model/repetition/token_traits.h"

#include <gtest/gtest.h>

#include "tests/model/text/tokenizer_fixture.h"

namespace model::repetition {
namespace {

TEST(TokenTraits, WeighsWordsAgainstDigitsPunctuationAndWhiteSpace) {
  const struct {
    std::string_view bytes;
    int words, fillers;
  } cases[] = {{"the", 3, 0},
               {" the", 3, 0},
               {" ", 0, 1},
               {"  the", 3, 1},
               {"0", 0, 1},
               {" 00", 0, 3},
               {"0x", 0, 2},
               {"3fa9", 0, 4},
               {"face", 4, 0},
               {"---|", 0, 4},
               {"),\n", 0, 3},
               {"can't", 4, 1},
               {"\u2500\u2500", 0, 2},
               {"\u00fcber", 4, 0},
               {"\u6cb3", 1, 0},
               {"\u3002", 0, 1},
               {"\xF0\x9F\x98\x80", 1, 0},
               {"\xE6\xB2", 1, 0},
               {"\x94\x80", 0, 0},
               {"\xE2\x94", 0, 1},
               {"", 0, 0}};
  for (const auto& c : cases) {
    const auto weight = weigh(c.bytes);
    EXPECT_EQ(weight.words, c.words) << c.bytes;
    EXPECT_EQ(weight.fillers, c.fillers) << c.bytes;
  }
}

TEST(TokenTraits, KnowsWhereALineOrASentenceEnds) {
  for (const char* bytes : {"\n", ".\n\n", "\n  ", ".", " end.", "?\"", "!)", "\u3002", ".\" "})
    EXPECT_TRUE(ends_line_or_sentence(bytes)) << bytes;
  for (const char* bytes : {"", " ", "the", ",", "a.b", "3", ")", ":", "..x"})
    EXPECT_FALSE(ends_line_or_sentence(bytes)) << bytes;
}

TEST(TokenTraits, HasAnEntryForEachIdAndAWordForAllOthers) {
  const auto tokenizer = text::mini_tokenizer();
  const TokenTraits traits(*tokenizer);
  EXPECT_EQ(traits.weight(220).fillers, 1);  // a space
  EXPECT_TRUE(traits.ends_line_or_sentence(198));
  for (const TokenId outside : {-1, tokenizer->size(), 1 << 30}) {
    EXPECT_EQ(traits.weight(outside).words, 1);
    EXPECT_EQ(traits.weight(outside).fillers, 0);
    EXPECT_FALSE(traits.ends_line_or_sentence(outside));
  }
}

}  // namespace
}  // namespace model::repetition
