#include <gmock/gmock.h>

#include "tests/model/runner/model_rig.h"

namespace model {
namespace {

using kernels::Form;
using testing::fixture;
using testing::ModelRig;
using testing::Recorder;
using testing::RigOptions;

ModelRig rig_of(std::int32_t max_seq_len) {
  RigOptions options;
  options.max_seq_len = max_seq_len;
  return ModelRig(fixture("tiny-qwen4_exp"), options);
}

std::vector<TokenId> prompt(std::int32_t length, std::int32_t seed) {
  std::vector<TokenId> ids;
  for (std::int32_t i = 0; i < length; ++i) ids.push_back((i * (7 + seed) + seed * 31) % 250);
  return ids;
}

/// What a sequence shows at position `last`, the whole sequence before it being a prompt.
struct Seen {
  std::vector<TokenId> sampled;
  Recorder shown;
  explicit Seen(ModelRig& rig) : shown(rig) {}
};
void run_to(ModelRig& rig, Position last, std::int32_t seed, Seen& seen) {
  std::vector<TokenId> ids = prompt(last + 1, seed);
  const TokenId at_last = ids.back();
  ids.pop_back();
  rig.generate(0, ids, 1);
  rig.runner->set_probe(&seen.shown);
  seen.sampled = rig.run(rig.feed(0, Form::decode, last, {at_last}, 0));
  rig.runner->set_probe(nullptr);
}

/// Where the context ends is nothing that a row could see: rings, index and scratch reach as far as flags
/// say.
TEST(Capacity, TheLastPositionIsComputedAsAnyOther) {
  for (const std::int32_t end : {253, 254, 255, 256}) {
    ModelRig tight = rig_of(end), roomy = rig_of(512);
    Seen at_the_end(tight), inside(roomy);
    run_to(tight, end - 1, 0, at_the_end);
    run_to(roomy, end - 1, 0, inside);
    EXPECT_EQ(at_the_end.sampled, inside.sampled) << end;
    EXPECT_EQ(at_the_end.shown.floats, inside.shown.floats) << end;
    EXPECT_EQ(at_the_end.shown.ints, inside.shown.ints) << end;
  }
}

/// The last row closes the last block and selects among all: its own token is attended only through that.
TEST(Capacity, TheLastBlockCanBeSelected) {
  ModelRig rig = rig_of(256);
  const std::int32_t last_block = 256 / rig.config.indexer->ratio - 1;
  int chosen = 0;
  for (std::int32_t seed = 0; seed < 8; ++seed) {
    Seen seen(rig);
    run_to(rig, 255, seed, seen);
    for (const auto& [name, blocks] : seen.shown.ints) {
      if (!name.ends_with(".blocks")) continue;
      for (const std::int32_t block : blocks) EXPECT_TRUE(block >= 0 && block <= last_block) << name;
      chosen += std::count(blocks.begin(), blocks.end(), last_block) > 0 ? 1 : 0;
    }
  }
  EXPECT_GT(chosen, 0);
}

TEST(Capacity, BeyondTheLastPositionTheOptionIsNamedAndOthersGoOn) {
  ModelRig rig = rig_of(256);
  rig.generate(0, prompt(256, 1), 1);
  rig.generate(1, prompt(10, 2), 1);
  const StepResult result =
      rig.step({rig.feed(0, Form::decode, 256, {3}, 0), rig.feed(1, Form::decode, 10, {3}, 0)});
  ASSERT_FALSE(result.outcomes.at(0).done.ok());
  EXPECT_THAT(result.outcomes.at(0).done.error().what,
              ::testing::HasSubstr("position 256 is past --max-seq-len 256"));
  EXPECT_TRUE(result.outcomes.at(1).done.ok());
}

}  // namespace
}  // namespace model
