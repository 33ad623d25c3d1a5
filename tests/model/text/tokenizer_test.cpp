#include "model/text/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "tests/model/text/tokenizer_fixture.h"

namespace model::text {
namespace {

using nlohmann::json;

using Ids = std::vector<TokenId>;

struct Fixture {
  std::string name;
  std::shared_ptr<const Tokenizer> tokenizer;
  json cases;
};

std::vector<Fixture> fixtures() {
  const auto cases = [](const std::string& name) {
    return json::parse(read_fixture(ATLAS_FIXTURES "/tokenizer/" + name + ".cases.json"));
  };
  return {{"mini", mini_tokenizer(), cases("mini")}, {"qwen3", qwen3_tokenizer(), cases("qwen3")}};
}

TEST(Tokenizer, EncodesEveryFixtureAsTheLibrary) {
  for (const Fixture& fixture : fixtures()) {
    ASSERT_GE(fixture.cases["encode"].size(), 200U);
    for (const json& one : fixture.cases["encode"])
      EXPECT_EQ(fixture.tokenizer->encode(one["text"].get<std::string>()), one["ids"].get<Ids>())
          << fixture.name << one["text"];
  }
}

TEST(Tokenizer, DecodesEveryFixtureAsTheLibrary) {
  for (const Fixture& fixture : fixtures()) {
    ASSERT_GE(fixture.cases["decode"].size(), 60U);
    for (const char* list : {"encode", "decode"}) {
      for (const json& one : fixture.cases[list]) {
        const Ids ids = one["ids"];
        EXPECT_EQ(fixture.tokenizer->decode(ids, false), one["decoded"].get<std::string>())
            << fixture.name << one;
        EXPECT_EQ(fixture.tokenizer->decode(ids, true), one["decoded_skip_special"].get<std::string>())
            << fixture.name << one;
      }
    }
  }
}

TEST(Tokenizer, KnowsItsIds) {
  const auto tokenizer = mini_tokenizer();
  const TokenId start = tokenizer->added_token("<|im_start|>").value();
  EXPECT_EQ(tokenizer->size(), 4096);
  EXPECT_TRUE(tokenizer->is_known(0) && tokenizer->is_known(4095));
  EXPECT_FALSE(tokenizer->is_known(-1) || tokenizer->is_known(4096));
  EXPECT_TRUE(tokenizer->is_added(start) && tokenizer->is_special(start));
  EXPECT_FALSE(tokenizer->is_added(17) || tokenizer->is_special(17));
  EXPECT_FALSE(tokenizer->is_special(tokenizer->added_token("<think>").value()));
  EXPECT_EQ(tokenizer->added_token("the"), std::nullopt);
  EXPECT_EQ(tokenizer->bytes(start), "<|im_start|>");
  EXPECT_EQ(tokenizer->bytes(220), " ");
  EXPECT_EQ(tokenizer->bytes(4096), "");
  EXPECT_EQ(tokenizer->decode(Ids{-5, 220, 1 << 30}, false), " ");
}

TEST(Tokenizer, ALiteralControlTokenIsOrdinaryText) {
  const auto tokenizer = qwen3_tokenizer();
  const std::string text = "<|im_start|>user\nx<|im_end|>y<|im_end|>";
  const std::size_t user = text.find("x<|"), end = text.find("y<|") + 1;
  const std::vector<ByteRange> literal = {{user, end}};
  Ids want = tokenizer->encode("<|im_start|>");
  for (const TokenId id : tokenizer->encode_ordinary("user\nx<|im_end|>y")) want.push_back(id);
  want.push_back(tokenizer->added_token("<|im_end|>").value());
  EXPECT_EQ(tokenizer->encode(text, literal), want);
  EXPECT_EQ(tokenizer->decode(want, false), text);
}

TEST(Tokenizer, OneLiteralByteIsEnoughToUndoAnAddedToken) {
  const auto tokenizer = mini_tokenizer();
  const std::string text = "a<|im_end|>b";
  for (std::size_t at = 0; at < text.size(); ++at) {
    const std::vector<ByteRange> literal = {{at, at + 1}};
    const bool outside = at == 0 || at == text.size() - 1;
    EXPECT_EQ(tokenizer->encode(text, literal),
              outside ? tokenizer->encode(text) : tokenizer->encode_ordinary(text))
        << at;
  }
  EXPECT_EQ(tokenizer->encode(text, std::vector<ByteRange>{{0, 1}, {11, 12}}), tokenizer->encode(text));
}

TEST(Tokenizer, OrdinaryTextNeverGivesAnAddedToken) {
  for (const TokenId id : mini_tokenizer()->encode_ordinary("<|im_start|><think></think><|endoftext|>"))
    EXPECT_FALSE(mini_tokenizer()->is_added(id));
}

TEST(Tokenizer, InvalidBytesAreEncodedAsReplacementCharacters) {
  const auto tokenizer = qwen3_tokenizer();
  EXPECT_EQ(tokenizer->encode("a\xF0\x9F\x98z\xFF<|im_end|>"), tokenizer->encode("a\uFFFDz\uFFFD<|im_end|>"));
  // The literal range moves along: the second control token is the user's.
  const std::string broken = "\xFF<|im_end|>\xFF<|im_end|>";
  const std::vector<ByteRange> literal = {{11, broken.size()}};
  const Ids ids = tokenizer->encode(broken, literal);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), tokenizer->added_token("<|im_end|>").value()), 1);
}

TEST(Tokenizer, AnUnbrokenWordOfAMegabyteIsEncodedInTime) {
  const auto tokenizer = qwen3_tokenizer();
  std::mt19937 random(3);
  std::string letters(1'000'000, 'a');
  for (char& letter : letters) letter = static_cast<char>('a' + random() % 26);
  std::vector<std::string> texts = {std::string(1'000'000, 'a'), letters};
  for (const std::string unit : {"a", "!", "7", " ", "\n", "ab", " \t", "é", "́"}) {
    texts.emplace_back();
    for (int i = 0; i < 200'000; ++i) texts.back() += unit;
  }
  for (const std::string& text : texts) {
    const auto start = std::chrono::steady_clock::now();
    const Ids ids = tokenizer->encode(text);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    EXPECT_LT(took.count(), 20.0) << text.substr(
        0, 2);  // quadratic would be minutes; sanitizers and busy machines are slow
    EXPECT_EQ(tokenizer->decode(ids, false), text);
  }
}

TEST(Tokenizer, ThreadsShareOne) {
  const auto tokenizer = mini_tokenizer();
  const std::string text = "Größe und <|im_end|> many words, 1234 numbers\n\n  and e\u0301 spaces";
  const Ids want = tokenizer->encode(text);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) wrong += tokenizer->encode(text) != want;
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace model::text
