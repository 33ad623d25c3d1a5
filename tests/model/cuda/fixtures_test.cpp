#include "tests/model/cuda/device_rig.h"
#include "tests/model/runner/prompt_check.h"

namespace model {
namespace {

using testing::check_fixture;
using testing::on_device;

/// The device in float32 against the reference, as the CPU is: logits, hidden rows and states to 1e-4, greedy
/// tokens, selected positions and rows of n-gram tables to the last one.
void check_on_device(const std::string& name) { check_fixture(name, on_device(DTypeOption::float32)); }

TEST(DeviceFixtures, TinyQwen4ExpMatchesTheReferenceKeyByKey) {
  REQUIRE_DEVICE();
  SKIP_WHERE_EMULATED();
  check_on_device("tiny-qwen4_exp");
}
TEST(DeviceFixtures, TinyQwen4ExpInBf16NestedAndPerExpertMatchesTheReference) {
  REQUIRE_DEVICE();
  SKIP_WHERE_EMULATED();
  check_on_device("tiny-qwen4_exp-bf16");
}
TEST(DeviceFixtures, TinyLlamaMatchesTheReference) {
  REQUIRE_DEVICE();
  SKIP_WHERE_EMULATED();
  check_on_device("tiny-llama");
}
TEST(DeviceFixtures, TinyQwen3NextMatchesTheReference) {
  REQUIRE_DEVICE();
  SKIP_WHERE_EMULATED();
  check_on_device("tiny-qwen3_next");
}
TEST(DeviceFixtures, TinyQwen3_5MatchesTheReference) {
  REQUIRE_DEVICE();
  SKIP_WHERE_EMULATED();
  check_on_device("tiny-qwen3_5");
}
TEST(DeviceFixtures, TinyQwen3_5MoeMatchesTheReference) {
  REQUIRE_DEVICE();
  SKIP_WHERE_EMULATED();
  check_on_device("tiny-qwen3_5_moe");
}
TEST(DeviceFixtures, TinyQwen3MatchesTheReference) {
  REQUIRE_DEVICE();
  SKIP_WHERE_EMULATED();
  check_on_device("tiny-qwen3");
}
TEST(DeviceFixtures, TinyQwen3MoeMatchesTheReference) {
  REQUIRE_DEVICE();
  SKIP_WHERE_EMULATED();
  check_on_device("tiny-qwen3_moe");
}

/// The GPU's own types of weights: f16 and bf16 files become what is computed in.
TEST(DeviceFixtures, HalfPrecisionGgufGeneratesWhatTheFloatModelDoes) {
  REQUIRE_DEVICE();
  SKIP_WHERE_EMULATED();
  testing::RigOptions options = on_device(DTypeOption::float32);
  options.max_seq_len = 256;
  testing::ModelRig rig(testing::fixture("gguf/tiny-llama-f16.gguf"), options);
  testing::ExpectedFile expected(testing::fixture("tiny-llama") + "/expected.safetensors");
  for (const char* prompt : {"len1", "len17", "len36", "len200"}) {
    const auto want = expected.ints(std::string(prompt) + ".greedy");
    EXPECT_EQ(rig.generate(0, expected.ints(std::string(prompt) + ".input_ids"), want.size()), want)
        << prompt;
  }
}

}  // namespace
}  // namespace model
