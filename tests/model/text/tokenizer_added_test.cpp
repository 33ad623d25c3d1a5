#include "model/text/tokenizer_added.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "model/text/tokenizer_normalizer.h"
#include "tests/model/text/tokenizer_fixture.h"

namespace model::text {
namespace {

struct Flags {
  bool single_word = false, lstrip = false, rstrip = false;
};

struct Spec {
  std::string content;
  Flags flags = {};
};

/// Sections as text: added ones in brackets, with their place in `specs`.
std::string sections(const std::vector<Spec>& specs, const std::string& text,
                     const std::vector<ByteRange>& literal = {}) {
  AddedTokenFinder finder;
  TokenId id = 0;
  for (const Spec& spec : specs)
    finder.add({id++, spec.content, spec.content, spec.flags.single_word, spec.flags.lstrip,
                spec.flags.rstrip, false, true},
               spec.content);
  std::string out;
  for (const TextSection& section : finder.sections(text, literal)) {
    const std::string part = text.substr(section.range.first, section.range.last - section.range.first);
    out += section.added ? "[" + std::to_string(*section.added) + ":" + part + "]" : "'" + part + "'";
  }
  return out;
}

TEST(AddedTokenFinder, TheLongestAtTheLeftmostPlaceWins) {
  EXPECT_EQ(sections({{"ab"}, {"abcd"}, {"bcde"}}, "xabcdeab"), "'x'[1:abcd]'e'[0:ab]");
  EXPECT_EQ(sections({{"ab"}, {"abcd"}}, "abcab"), "[0:ab]'c'[0:ab]");
  EXPECT_EQ(sections({}, "ab"), "'ab'");
  EXPECT_EQ(sections({{"ab"}}, ""), "");
}

TEST(AddedTokenFinder, StripTakesWhiteSpaceButNotWhatAnotherTokenHas) {
  EXPECT_EQ(sections({{"<l>", {false, true, false}}}, "a \t\u3000<l> b"), "'a'[0: \t\u3000<l>]' b'");
  EXPECT_EQ(sections({{"<r>", {false, false, true}}}, "a <r> \n"), "'a '[0:<r> \n]");
  EXPECT_EQ(sections({{"<r>", {false, false, true}}, {"<l>", {false, true, false}}}, "<r>  <l>"),
            "[0:<r>  ][1:<l>]");
}

TEST(AddedTokenFinder, ASingleWordStandsAlone) {
  const std::vector<Spec> specs = {{"ab", {true, false, false}}};
  EXPECT_EQ(sections(specs, "ab abc xab -ab- éab ab"), "[0:ab]' abc xab -'[0:ab]'- éab '[0:ab]");
}

TEST(AddedTokenFinder, LiteralTextKeepsItsBytesAndCutsLongerTokensShort) {
  EXPECT_EQ(sections({{"<a>"}, {"<a>b"}}, "<a>b", {{3, 4}}), "[0:<a>]'b'");
  EXPECT_EQ(sections({{"<a>"}}, "<a><a><a>", {{4, 5}}), "[0:<a>]'<a>'[0:<a>]");
  EXPECT_EQ(sections({{"<a>", {false, true, true}}}, "  <a>  ", {{0, 1}, {6, 7}}), "' '[0: <a> ]' '");
  EXPECT_EQ(sections({{"ab", {true, false, false}}}, "xab", {{0, 1}}), "'xab'");
}

TEST(Normalizer, LiteralRangesFollowTheirCharacters) {
  const std::string text = "e\u0301<x>e\u0301";  // 3 + 3 + 3 bytes, composed 2 + 3 + 2
  const RewrittenText composed = to_nfc(text, {{2, 4}, {8, 9}});
  EXPECT_EQ(composed.text, "é<x>é");
  ASSERT_EQ(composed.literal.size(), 2U);
  EXPECT_EQ(composed.literal[0].first, 0U);
  EXPECT_EQ(composed.literal[0].last, 3U);
  EXPECT_EQ(composed.literal[1].first, 5U);
  EXPECT_EQ(composed.literal[1].last, 7U);
  EXPECT_TRUE(is_nfc("abc é") && !is_nfc(text));
}

/// A normalised added token: found in the normal form, in ordinary text only.
TEST(Normalizer, NormalizedTokensAreFoundInTheNormalForm) {
  auto file = nlohmann::json::parse(read_fixture(ATLAS_MODELS "/atlas-mini/tokenizer.json"));
  file["added_tokens"].push_back(
      {{"id", 4096}, {"content", "<e\u0301>"}, {"normalized", true}, {"special", false}});
  file["added_tokens"].push_back(
      {{"id", 4097}, {"content", "<o\u0301>"}, {"normalized", false}, {"special", false}});
  const auto tokenizer = *Tokenizer::from_json(file.dump(), "f");
  using Ids = std::vector<TokenId>;
  EXPECT_EQ(tokenizer->encode("<é>"), Ids{4096});
  EXPECT_EQ(tokenizer->encode("<e\u0301>"), Ids{4096});
  EXPECT_EQ(tokenizer->encode("<o\u0301>"), Ids{4097});
  EXPECT_EQ(tokenizer->encode("<ó>"), tokenizer->encode_ordinary("<ó>"));
  for (std::size_t at = 0; at < 5; ++at) {
    const std::vector<ByteRange> literal = {{at, at + 1}};
    EXPECT_EQ(tokenizer->encode("<e\u0301>", literal), tokenizer->encode_ordinary("<é>")) << at;
  }
  const std::vector<ByteRange> before = {{0, 3}};
  EXPECT_EQ(tokenizer->encode("e\u0301<e\u0301>", before).back(), 4096);
}

TEST(AddedTokenFinder, SectionsOfAnyTextAndLiteralRangesAreTheTextAgain) {
  for (unsigned seed = 0; seed < 5000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    AddedTokenFinder finder;
    for (TokenId id = 0; id < 4; ++id) {
      std::string content(1 + random() % 3, 'a');
      for (char& c : content) c = static_cast<char>('a' + random() % 2);
      finder.add(
          {id, content, content, random() % 4 == 0, random() % 4 == 0, random() % 4 == 0, false, false},
          content);
    }
    std::string text(random() % 20, ' ');
    for (char& c : text) c = "ab "[random() % 3];
    std::vector<ByteRange> literal;
    for (std::size_t at = random() % 8; at < text.size(); at += 1 + random() % 8) {
      const std::size_t last = std::min<std::size_t>(text.size(), at + 1 + random() % 3);
      literal.push_back({at, last});
      at = last;
    }
    std::size_t at = 0;
    for (const TextSection& section : finder.sections(text, literal)) {
      ASSERT_EQ(section.range.first, at);
      ASSERT_LT(section.range.first, section.range.last);
      at = section.range.last;
      for (const ByteRange& range : literal)
        ASSERT_FALSE(section.added && section.range.first < range.last && range.first < section.range.last);
    }
    ASSERT_EQ(at, text.size());
  }
}

}  // namespace
}  // namespace model::text
