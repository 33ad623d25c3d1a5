#include <gtest/gtest.h>

#include <cmath>

#include "expected_file.h"
#include "model_rig.h"

namespace model {
namespace {

using testing::ExpectedFile;
using testing::fixture;
using testing::ModelRig;
using testing::Recorder;
using testing::RigOptions;

RigOptions options() {
  RigOptions options;
  options.max_batch_size = 256;  // as many logits rows
  options.max_seq_len = 256;
  return options;
}

/// Length of the difference over the length of `want`.
double distance(const std::vector<float>& got, const std::vector<float>& want) {
  if (got.size() != want.size()) return 1e9;
  double apart = 0.0, length = 0.0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    apart += std::pow(static_cast<double>(got[i]) - want[i], 2);
    length += std::pow(static_cast<double>(want[i]), 2);
  }
  return std::sqrt(apart / length);
}

double logits_distance(const std::string& gguf, const std::string& folder, const std::string& prompt) {
  ModelRig rig(fixture("gguf/" + gguf), options());
  ExpectedFile expected(fixture(folder) + "/expected.safetensors");
  const auto ids = expected.ints(prompt + ".input_ids");
  Recorder seen(rig);
  rig.runner->set_probe(&seen);
  rig.run(rig.feed(0, Form::prefill, 0, ids, 0), {rig.begin(0)});
  rig.runner->set_probe(nullptr);
  const auto& want = expected.floats(prompt + ".logits");
  const auto& all = seen.floats.at("logits");
  if (all.size() < want.size()) return 1e9;
  return distance({all.end() - static_cast<std::ptrdiff_t>(want.size()), all.end()}, want);
}

TEST(Gguf, GreedyTokensOfAHalfPrecisionFileAreThoseOfTheFloatModel) {
  ModelRig rig(fixture("gguf/tiny-llama-f16.gguf"), options());
  ExpectedFile expected(fixture("tiny-llama") + "/expected.safetensors");
  for (const char* prompt : {"len1", "len3", "len17", "len35", "len36", "len64", "len200"}) {
    const auto want = expected.ints(std::string(prompt) + ".greedy");
    EXPECT_EQ(want.size(), 48U);
    EXPECT_EQ(rig.generate(0, expected.ints(std::string(prompt) + ".input_ids"), want.size()), want)
        << prompt;
  }
}

/// What rounding costs: of weights to eight bits and of activations to eight bits, through four layers whose
/// weights are random. Four and five bits cost more, in the order of their steps.
TEST(Gguf, LogitsOfAQuantisedFileAreAsNearToTheFloatModelsAsItsBitsAllow) {
  for (const char* prompt : {"len17", "len64"}) {
    SCOPED_TRACE(prompt);
    const double f16 = logits_distance("tiny-llama-f16.gguf", "tiny-llama", prompt);
    const double q8 = logits_distance("tiny-llama-q8_0.gguf", "tiny-llama", prompt);
    const double q5 = logits_distance("tiny-llama-q5_1.gguf", "tiny-llama", prompt);
    const double q4 = logits_distance("tiny-llama-q4_1.gguf", "tiny-llama", prompt);
    EXPECT_LE(f16, 2e-3);
    EXPECT_LE(q8, 0.05);
    EXPECT_LT(q8, q5 / 2);
    EXPECT_LT(q5, q4);
    EXPECT_LE(q4, 0.8);
    EXPECT_LE(logits_distance("tiny-qwen3-q8_0.gguf", "tiny-qwen3", prompt), 0.05);
  }
}

/// A flip between two experts, or a decay a little off through a whole prompt, moves logits by more than
/// rounding does: here it is only that nothing breaks.
TEST(Gguf, EveryFamilyGeneratesFromAQuantisedFile) {
  for (const char* file :
       {"tiny-qwen3_next-q8_0.gguf", "tiny-qwen3_5-q8_0.gguf", "tiny-qwen4_exp-q8_0.gguf"}) {
    ModelRig rig(fixture(std::string("gguf/") + file), options());
    const std::vector<TokenId> prompt{5, 80, 17, 200, 33};
    const auto tokens = rig.generate(0, prompt, 16);
    EXPECT_EQ(tokens.size(), 16U) << file;
    EXPECT_EQ(rig.generate(1, prompt, 16), tokens) << file;
  }
}

}  // namespace
}  // namespace model
