#include "model/text/tokenizer_pattern.h"

#include <gmock/gmock.h>

#include "model/text/unicode.h"

namespace model::text {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Words = std::vector<std::string>;

Words split(const std::vector<SplitRule>& rules, const std::string& text) {
  const auto splitter = WordSplitter::compile(rules, "f");
  EXPECT_TRUE(splitter) << (splitter ? "" : splitter.error().problems.at(0));
  Words words;
  if (splitter) splitter->split(text, [&](std::string_view word) { words.emplace_back(word); });
  return words;
}

Words split(const std::string& regex, const std::string& text) {
  return split({{regex, true, true, "key"}}, text);
}

TEST(WordSplitter, MatchesAndGapsArePieces) {
  EXPECT_EQ(split("b+", "abbcb"), (Words{"a", "bb", "c", "b"}));
  EXPECT_EQ(split("x", "abc"), (Words{"abc"}));
  EXPECT_EQ(split("x", ""), Words{});
}

TEST(WordSplitter, EachRuleWorksOnThePiecesOfTheOneBefore) {
  // Alone, "ab" would be found across the digit's edge; lookaheads end with the piece too.
  EXPECT_EQ(split({{"[0-9]", true, true, ""}, {"a(?!b)|b", true, true, ""}}, "a1ab"),
            (Words{"a", "1", "a", "b"}));
  EXPECT_EQ(split({{"[0-9]", true, true, ""}, {"a$", true, true, ""}}, "xa1a"), (Words{"x", "a", "1", "a"}));
}

TEST(WordSplitter, AnEmptyMatchCutsOnce) {
  EXPECT_EQ(split("(?=b)", "abab"), (Words{"a", "ba", "b"}));
  EXPECT_EQ(split("x*", "aé"), (Words{"a", "é"}));
  EXPECT_EQ(split("", "éa"), (Words{"é", "a"}));
}

TEST(WordSplitter, TextBehindALookbehindIsSeen) {
  EXPECT_EQ(split("(?<=a)b", "abb"), (Words{"a", "b", "b"}));
}

TEST(WordSplitter, AFailureNamesFileAndKey) {
  const auto splitter =
      WordSplitter::compile({{"(a", true, true, "some.key"}, {"\\h", true, true, "other"}}, "tokenizer.json");
  ASSERT_FALSE(splitter);
  EXPECT_THAT(splitter.error().problems,
              ElementsAre(HasSubstr("tokenizer.json: some.key: "), HasSubstr("tokenizer.json: other: ")));
}

TEST(WordSplitter, LongRunsNeitherFailNorStall) {
  const std::string regex = "(?:\\p{L}|\\p{N}|\\s)+";  // every character is a place to come back to
  for (const std::string unit : {"a", "1", " ", "é"}) {
    std::string text;
    for (int i = 0; i < 300'000; ++i) text += unit;
    EXPECT_EQ(split(regex, text + "!").size(), 2U) << unit;  // a match that gave up would leave one piece
  }
}

/// Whether one code point, alone, is matched.
bool matches(const std::string& regex, char32_t c) {
  std::string text;
  append_utf8(text, c);
  Words found = split({{regex, true, false, ""}}, text);
  return found == Words{text};
}

TEST(Oniguruma, WhiteSpaceIsTheUnicodeProperty) {
  for (const char32_t c :
       {U'\t', U'\v', U'\f', U' ', U'\x85', U'\xA0', U'\x1680', U'\x2007', U'\x2028', U'\x3000'}) {
    EXPECT_TRUE(matches("\\s", c) && matches("[a\\s]", c) && !matches("\\S", c) && !matches("[^\\s]", c))
        << std::uint32_t{c};
  }
  for (const char32_t c : {U'a', U'\x1C', U'\x180E', U'\x200B', U'\xFEFF', U'\x10FFFF'}) {
    EXPECT_TRUE(!matches("\\s", c) && matches("\\S", c) && matches("[\\S ]", c) && matches("[^\\s]", c))
        << std::uint32_t{c};
  }
}

TEST(Oniguruma, CharactersOfAClassHaveNoMeaningOfTheirOwn) {
  for (const char32_t c : std::u32string(U"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"))
    EXPECT_TRUE(matches(R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~])", c)) << std::uint32_t{c};
  EXPECT_FALSE(matches(R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~])", U'a'));
  EXPECT_TRUE(matches("[a-]", U'-') && matches("[-a]", U'-') && matches("[\\s-]", U'-') &&
              matches("[+--]", U','));
  EXPECT_TRUE(matches("[一-龥]", U'世') && !matches("[一-龥]", U'é'));
  EXPECT_TRUE(matches("[^a]", U'b') && matches("[a^]", U'^'));
}

TEST(Oniguruma, EscapesAndPropertiesMeanWhatTheyMeanThere) {
  EXPECT_TRUE(matches("\\v", U'\v') && !matches("\\v", U'\n'));
  EXPECT_TRUE(matches("\\x{1F600}", U'😀') && matches("\\u00e9", U'é') && matches("\\x41", U'A'));
  EXPECT_TRUE(matches("\\w", U'_') && matches("\\w", U'\x301') && matches("\\w", U'\x203F') &&
              matches("\\w", U'²') && !matches("\\w", U'\x2074') && !matches("\\w", U'-'));
  EXPECT_TRUE(matches("\\W", U'-') && !matches("\\W", U'é'));
  EXPECT_TRUE(matches("\\d", U'٣') && !matches("\\d", U'½') && matches("\\p{N}", U'½'));
  EXPECT_TRUE(matches("\\p{^L}", U'1') && matches("\\P{L}", U'1') && !matches("\\P{^L}", U'1'));
  EXPECT_TRUE(matches("\\p{Han}", U'世') && !matches("\\p{Han}", U'、'));  // Script, not Script_Extensions
  EXPECT_TRUE(matches(".", U'\r') && !matches(".", U'\n'));
}

TEST(Oniguruma, CharactersOfUnicode15And16AreKnown) {
  const char32_t han = U'\x31350', hieroglyph = U'\x143FA', digit = U'\x10D40', mark = U'\x10D69';
  EXPECT_TRUE(matches("\\p{L}", han) && matches("[a\\p{L}]", hieroglyph) && matches("\\p{Lo}", han) &&
              matches("\\p{Han}", han));
  EXPECT_TRUE(!matches("\\P{L}", han) && !matches("[^\\s\\p{L}]", han) && !matches("\\p{Lu}", han) &&
              !matches("\\p{N}", han));
  EXPECT_TRUE(matches("\\p{N}", digit) && matches("\\d", digit) && matches("\\p{M}", mark) &&
              !matches("\\p{L}", mark));
  EXPECT_TRUE(matches("\\w", han) && matches("\\w", digit) && !matches("\\W", han));
}

TEST(Oniguruma, CaseIsFoldedAsUnicodeDoes) {
  EXPECT_EQ(split("(?i:'s|'t|'re|'ve|'m|'ll|'d)", "x'S'ſ'Re'lL's"),
            (Words{"x", "'S", "'ſ", "'Re", "'lL", "'s"}));
  EXPECT_EQ(split("(?i:a)a", "AAa"), (Words{"A", "Aa"}));
}

TEST(Oniguruma, IntervalsAndBraces) {
  EXPECT_EQ(split("a{,2}b", "aaab"), (Words{"a", "aab"}));
  EXPECT_EQ(split("\\p{N}{1,3}", "1234567"), (Words{"123", "456", "7"}));
  EXPECT_EQ(split("a{x}", "ba{x}"), (Words{"b", "a{x}"}));
  EXPECT_EQ(split("a++b?", "aab"), (Words{"aab"}));
}

TEST(Oniguruma, AnchorsAreOfLines) {
  EXPECT_EQ(split("^b|c$", "b\nbc\nc"), (Words{"b", "\n", "b", "c", "\n", "c"}));
}

TEST(Oniguruma, WhatCannotBeSaidIsAnError) {
  for (const std::string pattern :
       {"\\h",     "\\b",     "\\K",         "\\R",    "\\1",       "\\G",   "(?m:a)",  "(?<n>a)",
        "(*UTF)",  "(?~a)",   "[[:alpha:]]", "[a[b]]", "[a&&b]",    "[]a]",  "[a",      "[b-a]",
        "[a-\\s]", "a{1,2}+", "\\",          "\\xFF",  "\\x{D800}", "\\u12", "\\p{L&}", "\\pL"}) {
    const auto translated = pcre_of_oniguruma(pattern);
    EXPECT_TRUE(std::holds_alternative<PatternError>(translated)) << pattern;
  }
}

}  // namespace
}  // namespace model::text
