#include "model/checkpoint/gguf_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "model/text/chat_template.h"
#include "model/text/tokenizer.h"

namespace model {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const fs::path kFile = fs::path(ATLAS_FIXTURES) / "gguf" / "tiny-llama-q8_0.gguf";

GgufText text_of(const fs::path& path) {
  const auto model = open_gguf(path);
  EXPECT_TRUE(model.ok());
  auto text = read_gguf_text(*model);
  EXPECT_TRUE(text.ok()) << text.error().problems.front();
  return *std::move(text);
}

TEST(GgufText, TokensMergesAndControlTokensMakeATokenizer) {
  GgufText text = text_of(kFile);
  ASSERT_TRUE(text.tokenizer.has_value());
  const auto tokenizer = text::Tokenizer::from_parts(std::move(*text.tokenizer), "f");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().problems.front();
  EXPECT_THAT((*tokenizer)->encode("hello<|end|>"), ElementsAre(248, 249, 'o', 255));
  EXPECT_THAT((*tokenizer)->encode_ordinary("<|end|>"), ElementsAre('<', '|', 'e', 'n', 'd', '|', '>'));
  EXPECT_EQ((*tokenizer)->bytes(248), "he");
  EXPECT_EQ((*tokenizer)->bytes(251), "");  // a row without a token
  EXPECT_TRUE((*tokenizer)->is_special(255));
}

TEST(GgufText, TheTemplateSeesTheSpecialTokens) {
  const GgufText text = text_of(kFile);
  EXPECT_THAT(text.stop_tokens, ElementsAre(255));
  EXPECT_EQ(text.special_tokens_json, R"({"eos_token":"<|end|>"})");
  ASSERT_TRUE(text.chat_template.has_value());
  const auto parsed = text::ChatTemplate::parse(*text.chat_template, text.special_tokens_json, "f");
  ASSERT_TRUE(parsed.ok());
  const auto prompt = (*parsed)->render({R"([{"role":"user","content":"hi"}])", "", "", true});
  ASSERT_TRUE(prompt.ok());
  EXPECT_EQ(prompt->text, "<|turn|>user: hi\n<|turn|>assistant:");
}

TEST(GgufText, AFileWithoutAVocabularyHasNoTokenizer) {
  EXPECT_FALSE(text_of(kFile.parent_path() / "tiny-qwen3-q8_0.gguf").tokenizer.has_value());
}

std::vector<std::string> problems_with(std::string_view from, std::string_view to) {
  std::ifstream in(kFile, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  const auto at = bytes.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  bytes.replace(at, from.size(), to);
  const fs::path path = fs::temp_directory_path() / ("atlas-text-" + std::to_string(getpid()) + ".gguf");
  std::ofstream(path, std::ios::binary) << bytes;
  const auto model = open_gguf(path);
  fs::remove(path);
  if (!model.ok()) return model.error().problems;
  const auto text = read_gguf_text(*model);
  return text.ok() ? std::vector<std::string>() : text.error().problems;
}

TEST(GgufText, WhatIsNotSupportedOrWrongIsNamed) {
  struct Row {
    std::string_view from, to, reason;
  };
  for (const auto& [from, to, reason] :
       {Row{"gpt2", "bert", "tokenizer.ggml.model\" is \"bert\"; supported is gpt2"},
        Row{"gpt-2", "tekke", "tokenizer.ggml.pre\" is \"tekke\"; supported are gpt-2"},
        Row{"tokenizer.ggml.pre", "tokenizer.ggml.prx", "tokenizer.ggml.pre\" is missing"},
        Row{"h e", "hxe", "is not a pair of tokens"}, Row{"h e", "h z", "names tokens that are not in"},
        Row{"[PAD1]", "[PAD0]", "none"},  // rows without a token may be called alike
        Row{"<|turn|>", "<|end|>>", "none"}}) {
    SCOPED_TRACE(from);
    const auto problems = problems_with(from, to);
    if (reason == "none") {
      EXPECT_THAT(problems, ElementsAre());
    } else {
      EXPECT_THAT(problems, ::testing::Contains(HasSubstr(std::string(reason))));
    }
  }
}

}  // namespace
}  // namespace model
