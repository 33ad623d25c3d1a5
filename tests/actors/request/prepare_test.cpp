#include "actors/request/prepare.h"

#include <gtest/gtest.h>

#include "tests/actors/fakes.h"

namespace actors {
namespace {

using model::RequestError;
using testing::text_request;
using testing::token_request;

TEST(Prepare, TheRoomBesideThePromptIsTheEdge) {
  const auto served = testing::small_model();  // 256 tokens
  struct Case {
    std::size_t prompt;
    bool admitted;
    std::int32_t max_tokens;
  };
  for (const auto& c : {Case{254, true, 2}, Case{255, true, 1}, Case{256, false, 0}, Case{257, false, 0}}) {
    const auto admitted = admit_prompt(*served, std::vector<model::TokenId>(c.prompt, 1), std::nullopt);
    ASSERT_EQ(admitted.ok(), c.admitted) << c.prompt;
    if (c.admitted) {
      EXPECT_EQ(admitted->max_tokens, c.max_tokens);
      EXPECT_FALSE(admitted->clamped);
      continue;
    }
    EXPECT_EQ(admitted.error().kind, RequestError::Kind::too_long);
    EXPECT_EQ(admitted.error().code, "context_length_exceeded");
    EXPECT_NE(admitted.error().what.find(std::to_string(c.prompt)), std::string::npos);
    EXPECT_NE(admitted.error().what.find("256"), std::string::npos);
    EXPECT_NE(admitted.error().what.find("context"), std::string::npos);
  }
}

TEST(Prepare, MaxTokensIsClampedToTheRoom) {
  const auto served = testing::small_model();
  for (const auto& [asked, given] : {std::pair{55, 55}, {56, 56}, {57, 56}, {1'000'000, 56}}) {
    const auto admitted = admit_prompt(*served, std::vector<model::TokenId>(200, 1), asked);
    EXPECT_EQ(admitted->max_tokens, given);
    EXPECT_EQ(admitted->clamped, asked > 56);
  }
}

TEST(Prepare, MaxTokensBeyondTheRoomIsRefusedWhereItMayNotBeClamped) {
  const auto served = testing::small_model();
  const auto room = served->plan.max_seq_len - 200;
  const std::vector<model::TokenId> ids(200, 1);
  EXPECT_TRUE(admit_prompt(*served, ids, room, Overlength::reject).ok());
  EXPECT_TRUE(admit_prompt(*served, ids, std::nullopt, Overlength::reject).ok());
  const auto refused = admit_prompt(*served, ids, room + 1, Overlength::reject);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, "context_length_exceeded");
  EXPECT_EQ(refused.error().param, "max_tokens");
}

TEST(Prepare, TheSmallestCapacityIsNamed) {
  auto served = testing::small_model();
  served->plan.num_pages = 4;  // 64 tokens
  EXPECT_NE(admit_prompt(*served, std::vector<model::TokenId>(64, 1), {}).error().what.find("KV"),
            std::string::npos);
  served->plan.qsa_tokens = 32;
  EXPECT_NE(admit_prompt(*served, std::vector<model::TokenId>(32, 1), {}).error().what.find("index"),
            std::string::npos);
  EXPECT_EQ(admit_prompt(*served, std::vector<model::TokenId>(31, 1), {})->max_tokens, 1);
}

TEST(Prepare, EmptyPromptsAndForeignIdsAreInvalidAndNameThePrompt) {
  const auto served = testing::small_model();
  for (const auto& ids : {std::vector<model::TokenId>{}, {1, 257}, {-1}}) {
    const auto admitted = admit_prompt(*served, ids, 5);
    ASSERT_FALSE(admitted.ok());
    EXPECT_EQ(admitted.error().kind, RequestError::Kind::invalid);
    EXPECT_EQ(admitted.error().param, "prompt");
  }
  EXPECT_TRUE(admit_prompt(*served, {0, 256}, 5).ok());
}

TEST(Prepare, ChatIsRenderedAndItsErrorsNameTheMessages) {
  const auto served = testing::small_model();
  GenerateRequest request;
  model::text::ChatInput chat;
  chat.messages_json = "hello<think>";
  request.prompts = {chat};
  request.split_reasoning = true;
  const auto prepared = prepare(*served, request);
  ASSERT_TRUE(prepared.ok());
  EXPECT_EQ(prepared->at(0).ids->size(), 12U);
  chat.messages_json = std::string(300, 'x');
  request.prompts = {chat};
  EXPECT_EQ(prepare(*served, request).error().param, "messages");
}

TEST(Prepare, WithoutATokenizerTextIsRefusedAndIdsAreServed) {
  auto served = testing::small_model();
  served->tokenizer = nullptr;
  EXPECT_EQ(prepare(*served, text_request("a", 1)).error().code, "no_tokenizer");
  EXPECT_EQ(prepare(*served, text_request("a", 1)).error().kind, RequestError::Kind::unsupported);
  auto request = token_request({1}, 1);
  EXPECT_TRUE(prepare(*served, request).ok());
  request.stop = {"x"};
  EXPECT_EQ(prepare(*served, request).error().param, "stop");
}

TEST(Prepare, OneBadPromptOfSeveralRefusesTheRequest) {
  auto request = token_request({1}, 1);
  request.prompts.push_back(TokenPrompt{{}});
  EXPECT_FALSE(prepare(*testing::small_model(), request).ok());
}

}  // namespace
}  // namespace actors
