#include "model/text/reasoning_splitter.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace model::text {
namespace {

using Start = ReasoningSplitter::Start;

struct Split {
  std::string reasoning, content;
  friend bool operator==(const Split&, const Split&) = default;
  friend void PrintTo(const Split& s, std::ostream* out) {
    *out << testing::PrintToString(s.reasoning) << " | " << testing::PrintToString(s.content);
  }
};

Split split(Start start, const std::vector<std::string>& pieces) {
  ReasoningSplitter splitter(start);
  Split all;
  const auto add = [&all](const ReasoningSplitter::Piece& piece) {
    all.reasoning += piece.reasoning;
    all.content += piece.content;
  };
  for (const auto& piece : pieces) add(splitter.push(piece));
  add(splitter.finish());
  return all;
}

TEST(ReasoningSplitter, ADisabledOnePassesEverythingAtOnce) {
  ReasoningSplitter splitter;
  EXPECT_EQ(splitter.push("<think>a</think> <thi").content, "<think>a</think> <thi");
  EXPECT_EQ(splitter.finish().content, "");
}

TEST(ReasoningSplitter, ALeadingThoughtIsTakenOutWithTheWhiteSpaceAroundItsTags) {
  EXPECT_EQ(split(Start::outside, {"\n<think>\nwhy  not\n</think>\n\nYes. "}), (Split{"why  not", "Yes. "}));
  EXPECT_EQ(split(Start::outside, {"<think>\n\n</think>\n\nYes"}), (Split{"", "Yes"}));
  EXPECT_EQ(split(Start::inside, {" why</think>Yes"}), (Split{"why", "Yes"}));
}

TEST(ReasoningSplitter, TextThatDoesNotBeginWithATagIsContentToItsWhiteSpace) {
  EXPECT_EQ(split(Start::outside, {" \n a <think>b</think>"}), (Split{"", " \n a <think>b</think>"}));
  EXPECT_EQ(split(Start::outside, {" <thin"}), (Split{"", " <thin"}));
  EXPECT_EQ(split(Start::outside, {" \n"}), (Split{"", " \n"}));
  EXPECT_EQ(split(Start::outside, {"</think>x"}), (Split{"", "</think>x"}));
}

TEST(ReasoningSplitter, TagsAfterTheThoughtAreContent) {
  EXPECT_EQ(split(Start::inside, {"a</think>b <think>c</think> d"}), (Split{"a", "b <think>c</think> d"}));
}

TEST(ReasoningSplitter, AnUnclosedThoughtIsReasoningToItsLastByte) {
  EXPECT_EQ(split(Start::inside, {"a b \n</thin"}), (Split{"a b \n</thin", ""}));
  EXPECT_EQ(split(Start::outside, {"<think>a", " "}), (Split{"a ", ""}));
  EXPECT_EQ(split(Start::inside, {"\n "}), (Split{"", ""}));
}

TEST(ReasoningSplitter, WhatMayBecomeATagIsHeldAndNothingElse) {
  ReasoningSplitter splitter(Start::outside);
  EXPECT_EQ(splitter.push("<thi").content, "");
  EXPECT_EQ(splitter.push("nk>a").reasoning, "a");
  EXPECT_EQ(splitter.push(" b \n</").reasoning, " b");
  EXPECT_EQ(splitter.push("b> c").reasoning, " \n</b> c");
  EXPECT_EQ(splitter.push(" </think").reasoning, "");
  const auto last = splitter.push("> d ");
  EXPECT_EQ(last.reasoning, "");
  EXPECT_EQ(last.content, "d ");
}

/// The whole text at once, by the definition.
Split naive(Start start, const std::string& text) {
  const std::string white = " \t\n\r\f\v";
  const auto from_first = [&](const std::string& s) {
    return s.substr(std::min(s.find_first_not_of(white), s.size()));
  };
  std::string rest = text;
  if (start == Start::outside) {
    if (!from_first(text).starts_with("<think>")) return {"", text};
    rest = from_first(text).substr(7);
  }
  rest = from_first(rest);
  const std::size_t close = rest.find("</think>");
  if (close == std::string::npos) return {rest, ""};
  std::string thought = rest.substr(0, close);
  while (!thought.empty() && white.find(thought.back()) != std::string::npos) thought.pop_back();
  return {thought, from_first(rest.substr(close + 8))};
}

TEST(ReasoningSplitter, AnyCutsGiveWhatTheWholeTextGives) {
  const std::vector<std::string> parts = {"<think>", "</think>", "<thi", "</thin", "k>", "<",     "/",
                                          " ",       "\n",       "\t",   "a",      "é",  "think>"};
  for (unsigned seed = 0; seed < 30000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const Start start = random() % 2 == 0 ? Start::inside : Start::outside;
    std::string text = random() % 2 == 0 ? "" : "<think>";
    for (auto i = random() % 12; i > 0; --i) text += parts[random() % parts.size()];
    std::vector<std::string> pieces;
    for (std::size_t at = 0; at < text.size(); at += pieces.back().size())
      pieces.push_back(text.substr(at, 1 + random() % 6));
    ASSERT_EQ(split(start, pieces), naive(start, text)) << testing::PrintToString(text);
  }
}

}  // namespace
}  // namespace model::text
