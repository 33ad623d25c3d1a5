#include "model/text/tokenize_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/model/text/tokenizer_fixture.h"

namespace model::text {
namespace {

using nlohmann::json;

json answer(const std::string& line) { return json::parse(answer_tokenize_line(*mini_tokenizer(), line)); }

TEST(TokenizeJson, APromptGivesItsTokensAndTheirCount) {
  const json cases = json::parse(read_fixture(ATLAS_FIXTURES "/tokenizer/mini.cases.json"));
  for (const json& one : cases["encode"]) {
    const json got = answer(json{{"prompt", one["text"]}}.dump());
    EXPECT_EQ(got, (json{{"tokens", one["ids"]}, {"count", one["ids"].size()}}));
  }
}

TEST(TokenizeJson, TokensGiveTheirText) {
  const json cases = json::parse(read_fixture(ATLAS_FIXTURES "/tokenizer/mini.cases.json"));
  for (const json& one : cases["decode"]) {
    EXPECT_EQ(answer(json{{"tokens", one["ids"]}}.dump()), (json{{"prompt", one["decoded"]}}));
    const json skip = {{"tokens", one["ids"]}, {"skip_special_tokens", true}};
    EXPECT_EQ(answer(skip.dump()), (json{{"prompt", one["decoded_skip_special"]}}));
  }
}

TEST(TokenizeJson, AnswersAreOneLine) {
  EXPECT_EQ(answer_tokenize_line(*mini_tokenizer(), R"({"prompt":""})"), R"({"tokens":[],"count":0})");
  EXPECT_EQ(answer_tokenize_line(*mini_tokenizer(), R"({"tokens":[198]})"), R"({"prompt":"\n"})");
}

TEST(TokenizeJson, MistakesAreNamedInTheErrorObject) {
  const struct {
    std::string line;
    json param;
  } cases[] = {
      {"", nullptr},
      {"{", nullptr},
      {"[]", nullptr},
      {"{}", "prompt"},
      {R"({"prompt":"a","tokens":[1]})", "tokens"},
      {R"({"prompt":7})", "prompt"},
      {R"({"prompt":null})", "prompt"},
      {"{\"prompt\":\"\xFF\"}", nullptr},
      {R"({"prompt":"\ud800"})", nullptr},
      {R"({"tokens":"a"})", "tokens"},
      {R"({"tokens":[1,"a"]})", "tokens"},
      {R"({"tokens":[1.5]})", "tokens"},
      {R"({"tokens":[-1]})", "tokens"},
      {R"({"tokens":[4096]})", "tokens"},
      {R"({"tokens":[4294967296]})", "tokens"},
      {R"({"tokens":[99999999999999999999]})", nullptr},  // no JSON number of 64 bits
      {R"({"tokens":[1],"skip_special_tokens":1})", "skip_special_tokens"},
  };
  for (const auto& c : cases) {
    const json got = answer(c.line);
    ASSERT_TRUE(got.contains("error")) << c.line << got;
    EXPECT_EQ(got["error"]["param"], c.param) << c.line << got;
    EXPECT_EQ(got["error"]["type"], "invalid_request_error");
    EXPECT_TRUE(got["error"]["code"].is_null());
    EXPECT_FALSE(got["error"]["message"].get<std::string>().empty());
  }
}

}  // namespace
}  // namespace model::text
