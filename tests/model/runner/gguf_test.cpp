#include <gtest/gtest.h>

#include "expected_file.h"
#include "model_rig.h"

namespace model {
namespace {

using testing::ExpectedFile;
using testing::fixture;
using testing::ModelRig;

/// Greedy tokens of a GGUF file against those of the float model that it was made from.
void check_greedy(const std::string& gguf, const std::string& folder) {
  testing::RigOptions options;
  options.max_seq_len = 256;
  ModelRig rig(fixture("gguf/" + gguf), options);
  ExpectedFile expected(fixture(folder) + "/expected.safetensors");
  int prompts = 0;
  for (const std::string& key : expected.keys()) {
    const std::string ending = ".input_ids";
    if (!key.ends_with(ending)) continue;
    const std::string prompt = key.substr(0, key.size() - ending.size());
    if (!expected.has(prompt + ".greedy")) continue;
    const auto want = expected.ints(prompt + ".greedy");
    const auto gaps = expected.floats(prompt + ".greedy_gap");
    const auto got = rig.generate(0, expected.ints(key), want.size());
    ++prompts;
    EXPECT_EQ(got, want) << gguf << ' ' << prompt;
    for (std::size_t i = 0; i < want.size() && i < got.size(); ++i) {
      if (got[i] == want[i]) continue;
      ADD_FAILURE() << "first difference at " << i << ", where the float model's best two are " << gaps[i]
                    << " apart";
      break;
    }
  }
  EXPECT_GT(prompts, 0);
}

TEST(Gguf, GreedyTokensOfHalfPrecisionAreThoseOfTheFloatModel) {
  check_greedy("tiny-llama-f16.gguf", "tiny-llama");
}
TEST(Gguf, GreedyTokensOfBfloat16AreThoseOfTheFloatModel) {
  check_greedy("tiny-llama-bf16.gguf", "tiny-llama");
}
TEST(Gguf, GreedyTokensOfQ8AreThoseOfTheFloatModelLlama) {
  check_greedy("tiny-llama-q8_0.gguf", "tiny-llama");
}
TEST(Gguf, GreedyTokensOfQ8AreThoseOfTheFloatModelQwen3) {
  check_greedy("tiny-qwen3-q8_0.gguf", "tiny-qwen3");
}
TEST(Gguf, GreedyTokensOfQ8AreThoseOfTheFloatModelQwen3Moe) {
  check_greedy("tiny-qwen3_moe-q8_0.gguf", "tiny-qwen3_moe");
}
TEST(Gguf, GreedyTokensOfQ8AreThoseOfTheFloatModelQwen3Next) {
  check_greedy("tiny-qwen3_next-q8_0.gguf", "tiny-qwen3_next");
}
TEST(Gguf, GreedyTokensOfQ8AreThoseOfTheFloatModelQwen35) {
  check_greedy("tiny-qwen3_5-q8_0.gguf", "tiny-qwen3_5");
}
TEST(Gguf, GreedyTokensOfQ8AreThoseOfTheFloatModelQwen35Moe) {
  check_greedy("tiny-qwen3_5_moe-q8_0.gguf", "tiny-qwen3_5_moe");
}
TEST(Gguf, GreedyTokensOfQ8AreThoseOfTheFloatModelQwen4Exp) {
  check_greedy("tiny-qwen4_exp-q8_0.gguf", "tiny-qwen4_exp");
}

}  // namespace
}  // namespace model
