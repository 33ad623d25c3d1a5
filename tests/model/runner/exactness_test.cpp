#include "exactness.h"

namespace model {
namespace {

using testing::RigOptions;

// Rule 1. The bound of this model is 35, so nearly every prompt is past it.
TEST(Exactness, AnySplitOfAPromptOnTheGridGivesTheSameBits) {
  testing::expect_splits_agree("tiny-qwen4_exp", 200);
}
TEST(Exactness, AnySplitGivesTheSameBitsInTheOtherFamilies) {
  for (const char* name : {"tiny-qwen3_next", "tiny-qwen3_5", "tiny-qwen3_moe", "tiny-qwen3"})
    testing::expect_splits_agree(name, 20);
}

TEST(Exactness, OneTokenTailOfAPromptIsPrefillForm) { testing::expect_tail_is_prefill_form(); }

TEST(Exactness, SeveralKnownDecodeRowsInOneStepEqualSingleSteps) {
  testing::expect_known_rows_equal_single_steps();
}

// Rule 2, for one, two and three workers; the sequences alone were computed with two.
TEST(Exactness, ARowDoesNotDependOnItsBatchNorOnTheNumberOfWorkers) {
  std::vector<RigOptions> rigs;
  for (const int workers : {2, 1, 3}) {
    rigs.emplace_back();
    rigs.back().num_workers = workers;
  }
  for (const char* name :
       {"tiny-qwen4_exp", "tiny-qwen4_exp-bf16", "tiny-llama", "tiny-qwen3_next", "tiny-qwen3_moe"})
    testing::expect_rows_do_not_depend_on_their_batch(name, {1, 34, 35, 36, 64, 65, 150, 300}, rigs);
}

TEST(Exactness, PoisonedMemoryChangesNothing) {
  for (const char* name : {"tiny-qwen4_exp", "tiny-llama", "tiny-qwen3_next", "tiny-qwen3_moe"})
    testing::expect_poison_changes_nothing(name);
}

TEST(Exactness, AResetSlotRemembersNothing) {
  for (const char* name : {"tiny-qwen4_exp", "tiny-qwen3_next", "tiny-qwen3"})
    testing::expect_a_reset_slot_remembers_nothing(name);
}

TEST(Exactness, LogitsOfInnerPromptRowsLeaveTheIdsAlone) {
  testing::expect_inner_logits_leave_the_ids_alone();
}

}  // namespace
}  // namespace model
