#include "model/arch/known_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace model {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(KnownAnswer, IsAPromptAndTheTokensThatFollowIt) {
  const auto answer = parse_known_answer(R"({"prompt": [1, 255], "tokens": [7]})", "canary.json", 256);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(*answer, (KnownAnswer{{1, 255}, {7}}));
}

TEST(KnownAnswer, ProblemsNameFileAndKey) {
  const auto problems = [](const char* json) {
    const auto answer = parse_known_answer(json, "canary.json", 256);
    return answer.ok() ? std::vector<std::string>{} : answer.error().problems;
  };
  EXPECT_THAT(problems(R"({"prompt": [], "tokens": [1]})"), ElementsAre(HasSubstr("canary.json: prompt")));
  EXPECT_THAT(problems(R"({"prompt": [1]})"), ElementsAre(HasSubstr("canary.json: tokens")));
  EXPECT_THAT(problems(R"({"prompt": [256], "tokens": [-1]})"),
              ElementsAre(HasSubstr("canary.json: prompt"), HasSubstr("canary.json: tokens")));
  EXPECT_THAT(problems("[1]"), ElementsAre(HasSubstr("canary.json")));
}

}  // namespace
}  // namespace model
