#include "expected_file.h"
#include "mini_cases.h"

namespace model {
namespace {

using testing::ExpectedFile;
using testing::fixture;
using testing::load_mini;
using testing::MiniCase;
using testing::ModelRig;
using testing::read_cases;
using testing::Recorder;
using testing::relative_difference;

TEST(Mini, EveryExpectedCaseGivesTheSameTokens) {
  ModelRig rig = load_mini();
  int cases = 0;
  for (const MiniCase& one : read_cases(fixture("mini/expected.json"))) {
    EXPECT_EQ(rig.generate(0, one.prompt, one.tokens.size()), one.tokens) << one.name;
    ++cases;
  }
  EXPECT_GE(cases, 24);
}

TEST(Mini, EndlessRepetitionGivesTheSameTokens) {
  ModelRig rig = load_mini();
  for (const MiniCase& one : read_cases(fixture("mini/forever.json")))
    EXPECT_EQ(rig.generate(0, one.prompt, one.tokens.size()), one.tokens);
}

TEST(Mini, LogitsMatchTheReference) {
  ModelRig rig = load_mini();
  ExpectedFile expected(fixture("mini") + "/expected.safetensors");
  for (const MiniCase& one : read_cases(fixture("mini/expected.json"))) {
    const std::string key = one.name + ".logits";
    if (!expected.has(key)) continue;
    Recorder seen(rig);
    rig.runner->set_probe(&seen);
    // The reference's rows begin a few positions before the prompt's end and go on over the answer.
    const auto first = static_cast<std::int32_t>(one.logits_first_position);
    rig.run(rig.feed(0, Form::prefill, 0, one.prompt, first), {rig.begin(0)});
    const auto rows = expected.shape(key).at(0);
    auto fed = static_cast<Position>(one.prompt.size());
    for (std::size_t i = 0; fed < first + rows; ++i, ++fed)
      rig.run(rig.feed(0, Form::decode, fed, {one.tokens.at(i)}, 0));
    rig.runner->set_probe(nullptr);
    EXPECT_LE(relative_difference(seen.floats.at("logits"), expected.floats(key)), 1e-4) << one.name;
  }
  EXPECT_TRUE(expected.unused_keys().empty());
}

}  // namespace
}  // namespace model
