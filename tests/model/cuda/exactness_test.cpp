#include "tests/model/runner/exactness.h"

#include "tests/model/cuda/device_rig.h"

// Rules 0 to 2 on the device, bit for bit, in both types.
namespace model {
namespace {

using testing::kDTypes;
using testing::name_of;
using testing::on_device;

constexpr const char* kFamilies[] = {"tiny-qwen4_exp", "tiny-llama", "tiny-qwen3_next", "tiny-qwen3_moe"};

TEST(DeviceExactness, AnySplitOfAPromptOnTheGridGivesTheSameBits) {
  REQUIRE_DEVICE();
  SKIP_WHERE_EMULATED();
  for (const DTypeOption dtype : kDTypes) {
    SCOPED_TRACE(name_of(dtype));
    testing::expect_splits_agree("tiny-qwen4_exp", 60, on_device(dtype));
    for (const char* name : {"tiny-qwen3_next", "tiny-qwen3_5", "tiny-qwen3_moe", "tiny-qwen3"})
      testing::expect_splits_agree(name, 8, on_device(dtype));
  }
}

TEST(DeviceExactness, OneTokenTailOfAPromptIsPrefillForm) {
  REQUIRE_DEVICE();
  SKIP_WHERE_EMULATED();
  for (const DTypeOption dtype : kDTypes) testing::expect_tail_is_prefill_form(on_device(dtype));
}

TEST(DeviceExactness, SeveralKnownDecodeRowsInOneStepEqualSingleSteps) {
  REQUIRE_DEVICE();
  SKIP_WHERE_EMULATED();
  for (const DTypeOption dtype : kDTypes) testing::expect_known_rows_equal_single_steps(on_device(dtype));
}

/// 32 sequences that start one after another, prompts in random chunks beside decode rows, against each
/// alone.
TEST(DeviceExactness, ARowAmong32SequencesIsWhatItIsAlone) {
  REQUIRE_DEVICE();
  SKIP_WHERE_EMULATED();
  std::vector<std::size_t> lengths = {1, 34, 35, 36, 64, 65, 150, 300};
  std::mt19937 random(4);
  while (lengths.size() < 32) lengths.push_back(std::uniform_int_distribution<std::size_t>(1, 400)(random));
  for (const DTypeOption dtype : kDTypes) {
    SCOPED_TRACE(name_of(dtype));
    for (const char* name : kFamilies)
      testing::expect_rows_do_not_depend_on_their_batch(name, lengths, {on_device(dtype)});
  }
}

TEST(DeviceExactness, PoisonedMemoryChangesNothing) {
  REQUIRE_DEVICE();
  SKIP_WHERE_EMULATED();
  for (const DTypeOption dtype : kDTypes) {
    SCOPED_TRACE(name_of(dtype));
    for (const char* name : kFamilies) testing::expect_poison_changes_nothing(name, on_device(dtype));
  }
}

TEST(DeviceExactness, AResetSlotRemembersNothing) {
  REQUIRE_DEVICE();
  SKIP_WHERE_EMULATED();
  for (const char* name : {"tiny-qwen4_exp", "tiny-qwen3_next", "tiny-qwen3"})
    testing::expect_a_reset_slot_remembers_nothing(name, on_device(DTypeOption::bfloat16));
}

TEST(DeviceExactness, LogitsOfInnerPromptRowsLeaveTheIdsAlone) {
  REQUIRE_DEVICE();
  SKIP_WHERE_EMULATED();
  testing::expect_inner_logits_leave_the_ids_alone(on_device(DTypeOption::bfloat16));
}

}  // namespace
}  // namespace model
