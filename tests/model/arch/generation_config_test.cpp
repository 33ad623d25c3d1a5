#include <gmock/gmock.h>

#include "model/arch/model_config.h"

namespace model {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(GenerationConfig, ReadsWhatShapesSamplingAndNothingElse) {
  const auto defaults = parse_generation_config(
      R"({"eos_token_id": [4089, 4087], "do_sample": true, "temperature": 1.0, "top_k": 20, "top_p": 0.95,
          "max_new_tokens": 512, "transformers_version": "5", "pad_token_id": null})",
      "generation_config.json");
  ASSERT_TRUE(defaults.ok());
  EXPECT_THAT(defaults->eos, ElementsAre(4089, 4087));
  EXPECT_EQ(defaults->do_sample, true);
  EXPECT_EQ(defaults->temperature, 1.0F);
  EXPECT_EQ(defaults->top_k, 20);
  EXPECT_EQ(defaults->top_p, 0.95F);
  EXPECT_FALSE(defaults->min_p.has_value());
}

TEST(GenerationConfig, AScalarEosIsAListOfOneAndNullIsAbsent) {
  EXPECT_THAT(parse_generation_config(R"({"eos_token_id": 255})", "g")->eos, ElementsAre(255));
  EXPECT_TRUE(parse_generation_config(R"({"eos_token_id": null, "temperature": null})", "g")->eos.empty());
}

TEST(GenerationConfig, EveryWrongValueIsNamed) {
  const auto defaults = parse_generation_config(
      R"({"eos_token_id": "end", "do_sample": 1, "temperature": -1, "top_p": 2, "top_k": 1.5})",
      "generation_config.json");
  ASSERT_FALSE(defaults.ok());
  EXPECT_THAT(defaults.error().problems,
              ElementsAre(HasSubstr("generation_config.json: eos_token_id"), HasSubstr("do_sample"),
                          HasSubstr("temperature is -1"), HasSubstr("top_p is 2"),
                          HasSubstr("top_k is not an integer")));
}

}  // namespace
}  // namespace model
