#include "http/json.h"

#include <gtest/gtest.h>

#include <limits>

namespace http {
namespace {

using namespace std::string_literals;

TEST(Json, ReadsEveryKindAndKeepsSpellings) {
  auto document =
      Document::parse(R"({"a":[1.0,-2e3,18446744073709551616],"b":{"k":"é\n😀"},"c":true,"d":null,"e":""})");
  ASSERT_TRUE(document.ok());
  const Json& root = document->root();
  EXPECT_EQ(root.find("a")->items[0].text, "1.0");
  EXPECT_EQ(root.find("a")->items[2].text, "18446744073709551616");
  EXPECT_EQ(root.find("b")->find("k")->text, "é\n😀");
  EXPECT_TRUE(root.find("c")->boolean);
  EXPECT_TRUE(root.find("d")->is(Json::Kind::null));
  EXPECT_EQ(root.find("none"), nullptr);
  std::string out;
  append_json(out, root);
  EXPECT_EQ(out, R"({"a":[1.0,-2e3,18446744073709551616],"b":{"k":"é\n😀"},"c":true,"d":null,"e":""})");
}

TEST(Json, TakesTheLastOfTwoMembersOfOneName) {
  auto document = Document::parse(R"({"a":1,"a":2})");
  ASSERT_TRUE(document.ok());
  EXPECT_EQ(document->root().find("a")->text, "2");
}

TEST(Json, RefusesWhatIsNoJson) {
  const std::string bad[] = {"",
                             " ",
                             "{",
                             "}",
                             "{:\"model\":1}",
                             R"({"a":1)",
                             R"({"a":1,})",
                             R"({"a":[1,]})",
                             "{} {}",
                             "\0"s,
                             "7",
                             "null",
                             "\"x\"",
                             "'{}'",
                             "[1 2]",
                             R"({"a" 1})",
                             R"({a:1})",
                             R"({"a":01})",
                             R"({"a":+1})",
                             R"({"a":.5})",
                             R"({"a":5.})",
                             R"({"a":1e})",
                             R"({"a":NaN})",
                             R"({"a":Infinity})",
                             R"({"a":tru})",
                             R"({"a":nul})",
                             R"({"a":1x})",
                             "{\"a\":\"\n\"}",
                             R"({"a":"\x"})",
                             R"({"a":"\ud83d"})",
                             R"({"a":"\ude00"})",
                             R"({"a":"\u12"})",
                             "{\"a\":\"\xc3\x28\"}",
                             "{\"a\":\"\xed\xa0\x80\"}",
                             "{\"a\":\"\xc0\xaf\"}",
                             "{\"a\":\"\xf4\x90\x80\x80\"}",
                             "{\"a\":\"\xe6\xbc",
                             R"({"a":1}])",
                             R"({"a":1}x)",
                             "// c\n{}",
                             "\xef\xbb"};
  for (const auto& text : bad) {
    const auto document = Document::parse(text);
    ASSERT_FALSE(document.ok()) << text;
    EXPECT_EQ(document.error().code, "invalid_json");
    EXPECT_EQ(document.error().kind, model::RequestError::Kind::invalid);
  }
}

TEST(Json, NamesTheValueThatIsWrong) {
  EXPECT_EQ(Document::parse(R"({"messages":[{},{"content":"\x"}]})").error().param, "messages[1].content");
  EXPECT_EQ(Document::parse(R"({"temperature":NaN})").error().param, "temperature");
}

TEST(Json, FindsTheLastOfANameInObjectsOfEverySize) {
  for (const int size : {1, 63, 64, 65, 5000}) {
    std::string text = "{\"twice\":-1";
    for (int i = 0; i < size; ++i)
      text += ",\"k" + std::to_string(i * 7919 % size) + "\":" + std::to_string(i);
    const auto document = Document::parse(text + ",\"twice\":-2}");
    ASSERT_TRUE(document.ok());
    EXPECT_EQ(document->root().find("twice")->text, "-2");
    EXPECT_EQ(document->root().find("k0")->text, "0");
    for (const char* none : {"", "a", "k", "k9999999", "zz"}) EXPECT_EQ(document->root().find(none), nullptr);
  }
}

TEST(Json, BoundsDepthAndNumberOfValues) {
  const auto nested = [](std::size_t depth) {
    return "{\"x\":" + std::string(depth, '[') + std::string(depth, ']') + "}";
  };
  EXPECT_TRUE(Document::parse(nested(255)).ok());
  EXPECT_FALSE(Document::parse(nested(256)).ok());
  EXPECT_FALSE(Document::parse(nested(100'000)).ok());
  std::string many = "[0";
  for (int i = 0; i < 2'000'000; ++i) many += ",0";
  EXPECT_FALSE(Document::parse(many + "]").ok());
  EXPECT_TRUE(Document::parse(many + "]", 2'000'002).ok());
}

TEST(Json, WritesFloatsShortestAndFinite) {
  std::string out;
  for (const float value : {0.1F, -1.5F, 1e-7F, -std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()}) {
    append_float(out, value);
    out += ' ';
  }
  EXPECT_EQ(out, "0.1 -1.5 1e-07 -9999 -9999 ");
}

}  // namespace
}  // namespace http
