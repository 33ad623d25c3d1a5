#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/model/checkpoint/test_checkpoint.h"
#include "tests/model/cuda/device_rig.h"
#include "tests/model/runner/exactness.h"

// Rule 1 far past the selection bound: prompts of many chunks, at the widths that servers use, are what they
// are when they are fed whole.
namespace model {
namespace {

using testing::expect_same;
using testing::fixture;
using testing::ModelRig;
using testing::on_device;
using testing::random_ids;
using testing::RigOptions;
using testing::Trace;
using testing::trace;

constexpr std::int32_t kPositions = 32768;

/// tiny-qwen4_exp with more positions: nothing in its weights depends on how many there are.
class LongModel {
 public:
  LongModel() {
    const std::string from = fixture("tiny-qwen4_exp");
    auto config = nlohmann::json::parse(testing_checkpoint::read_file(from + "/config.json"));
    config["max_position_embeddings"] = kPositions;
    testing_checkpoint::write_file(folder_.path() / "config.json", config.dump());
    std::filesystem::copy(from + "/model.safetensors", folder_.path());
  }
  ModelRig rig(DTypeOption dtype, std::int32_t max_prefill_tokens) const {
    RigOptions options;
    options.max_seq_len = kPositions;
    options.max_batch_size = 2;
    options.max_prefill_tokens = max_prefill_tokens;
    return {folder_.path().string(), on_device(dtype, options)};
  }

 private:
  testing_checkpoint::TempFolder folder_;
};

std::vector<std::int32_t> chunks(std::int32_t length, std::int32_t width) {
  std::vector<std::int32_t> cuts;
  for (std::int32_t at = width; at < length; at += width) cuts.push_back(at);
  cuts.push_back(length);
  return cuts;
}

TEST(DeviceLongPrompts, ChunksAtTheWidthsOfServersGiveTheBitsOfTheWholePrompt) {
  REQUIRE_DEVICE();
  SKIP_WHERE_EMULATED();
  const LongModel model;
  for (const DTypeOption dtype : testing::kDTypes) {
    ModelRig whole = model.rig(dtype, kPositions);
    for (const std::int32_t budget : {4095, 8192}) {
      ModelRig chunked = model.rig(dtype, budget);
      std::mt19937 random(static_cast<unsigned>(budget));
      std::vector<std::int32_t> lengths = {13397};
      for (const std::int32_t n : {0, 1, 2})
        for (const std::int32_t more : {1117, 1118, 1862, 4092}) lengths.push_back(n * budget + more);
      for (const std::int32_t length : lengths) {
        SCOPED_TRACE(std::to_string(length) + " tokens at " + std::to_string(budget) + " in " +
                     testing::name_of(dtype));
        const auto ids = random_ids(random, static_cast<std::size_t>(length));
        expect_same(trace(chunked, 1, ids, chunks(length, chunked.plan.chunk_width), 3),
                    trace(whole, 0, ids, {length}, 3));
        ASSERT_FALSE(::testing::Test::HasFailure());
      }
    }
  }
}

TEST(DeviceLongPrompts, TwoHundredRandomLengthsAreTheSameInChunksAndWhole) {
  REQUIRE_DEVICE();
  SKIP_WHERE_EMULATED();
  const LongModel model;
  ModelRig whole = model.rig(DTypeOption::bfloat16, kPositions);
  ModelRig chunked = model.rig(DTypeOption::bfloat16, 2048);
  std::mt19937 random(200);
  for (int round = 0; round < 200; ++round) {
    const auto length = std::uniform_int_distribution<std::int32_t>(1, 9000)(random);
    const auto ids = random_ids(random, static_cast<std::size_t>(length));
    ASSERT_EQ(chunked.generate(1, ids, 4), whole.generate(0, ids, 4)) << length;
  }
}

}  // namespace
}  // namespace model
