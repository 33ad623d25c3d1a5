#include "tests/model/runner/mini_cases.h"

#include <cstdio>

#include "tests/model/cuda/device_rig.h"

namespace model {
namespace {

using testing::fixture;
using testing::load_mini;
using testing::MiniCase;
using testing::ModelRig;
using testing::on_device;
using testing::read_cases;
using testing::Recorder;

TEST(DeviceMini, EveryExpectedCaseGivesTheSameTokensInFloat32) {
  REQUIRE_DEVICE();
  SKIP_WHERE_EMULATED();
  ModelRig rig = load_mini(on_device(DTypeOption::float32));
  for (const MiniCase& one : read_cases(fixture("mini/expected.json")))
    EXPECT_EQ(rig.generate(0, one.prompt, one.tokens.size()), one.tokens) << one.name;
}

/// The logits before each token of the answer, the answer being fed as it should be.
std::vector<float> forced_logits(ModelRig& rig, const MiniCase& one) {
  Recorder seen(rig);
  const auto length = static_cast<Position>(one.prompt.size());
  const auto rows_of = [](const std::vector<TokenId>& part) {
    return static_cast<std::int32_t>(part.size());
  };
  for (Position at = 0; at < length; at += rig.plan.chunk_width) {
    const Position end = std::min(length, at + rig.plan.chunk_width);
    const std::vector<TokenId> part(one.prompt.begin() + at, one.prompt.begin() + end);
    rig.runner->set_probe(end == length ? &seen : nullptr);
    std::vector<StateSlot> resets;
    if (at == 0) resets.push_back(rig.begin(0));
    rig.run(rig.feed(0, Form::prefill, at, part, end == length ? rows_of(part) - 1 : rows_of(part)), resets);
  }
  constexpr std::ptrdiff_t kWidth = 32;
  const auto fed = std::ssize(one.tokens) - 1;  // nothing is asked behind the last
  for (std::ptrdiff_t at = 0; at < fed; at += kWidth) {
    const std::vector<TokenId> part(one.tokens.begin() + at, one.tokens.begin() + std::min(fed, at + kWidth));
    rig.run(rig.feed(0, Form::decode, length + static_cast<Position>(at), part, 0));
  }
  rig.runner->set_probe(nullptr);
  return seen.floats["logits"];
}

/// What rounding to bf16 in every layer may change: where two tokens are nearly as likely, which is first.
/// Each difference is printed with what it hangs on: how far apart the two tokens are in float32.
TEST(DeviceMini, Bfloat16TakesTheExpectedTokenButAtNearTies) {
  REQUIRE_DEVICE();
  SKIP_WHERE_EMULATED();
  constexpr double kNearTie = 0.1;  // of logits that spread over about 20
  ModelRig narrow = load_mini(on_device(DTypeOption::bfloat16));
  ModelRig wide = load_mini(on_device(DTypeOption::float32));
  const auto vocab = static_cast<std::size_t>(narrow.config.vocab_size);
  std::size_t positions = 0, differences = 0;
  for (const MiniCase& one : read_cases(fixture("mini/expected.json"))) {
    const auto logits = forced_logits(narrow, one);
    ASSERT_EQ(logits.size(), one.tokens.size() * vocab) << one.name;
    std::vector<float> exact;  // only where it is asked for
    for (std::size_t i = 0; i < one.tokens.size(); ++i) {
      const float* const row = logits.data() + i * vocab;
      const auto taken = static_cast<std::size_t>(std::max_element(row, row + vocab) - row);
      const auto expected = static_cast<std::size_t>(one.tokens[i]);
      ++positions;
      if (taken == expected) continue;
      ++differences;
      if (exact.empty()) exact = forced_logits(wide, one);
      const float* const in_float32 = exact.data() + i * vocab;
      const double gap = in_float32[expected] - in_float32[taken];
      std::printf("%s, token %zu: %zu for %zu; bfloat16 %.4f and %.4f, float32 %.4f and %.4f: gap %.4f\n",
                  one.name.c_str(), i, taken, expected, static_cast<double>(row[taken]),
                  static_cast<double>(row[expected]), static_cast<double>(in_float32[taken]),
                  static_cast<double>(in_float32[expected]), gap);
      EXPECT_LE(gap, kNearTie) << one.name << " token " << i;
    }
  }
  std::printf("%zu of %zu positions differ\n", differences, positions);
  EXPECT_GE(positions, 1000U);
  EXPECT_LE(differences * 100, positions);
}

}  // namespace
}  // namespace model
