#include "stored_rows.h"

#include <gmock/gmock.h>

#include <fstream>

#include "model/ple_store/ple_store.h"

namespace model {
namespace {

using testing::fixture;
using testing::LargerTables;
using testing::ModelRig;
using testing::RigOptions;
using testing::with_tables;

TEST(StoredRows, GiveTheBitsOfAResidentTableWhateverTheCacheHolds) {
  for (const char* dtype : {"F32", "BF16", "F8_E4M3"}) {
    SCOPED_TRACE(dtype);
    const LargerTables model(dtype);
    // 192 prompt rows and 4 others read at most 196 * 8 rows of a table.
    testing::expect_stored_rows_change_nothing(model.folder(), {1, 34, 150, 300},
                                               {196 * 8, 2000, std::nullopt}, 12);
  }
}

TEST(StoredRows, GiveTheBitsOfAResidentTableOfTheFixtures) {
  testing::expect_stored_rows_change_nothing(fixture("tiny-qwen4_exp"), {2, 70, 200}, {std::nullopt}, 8);
  testing::expect_stored_rows_change_nothing(fixture("tiny-qwen4_exp-bf16"), {2, 70, 200}, {std::nullopt}, 8);
  // One tensor of f16 for both layers.
  testing::expect_stored_rows_change_nothing(fixture("gguf/tiny-qwen4_exp-q8_0.gguf"), {2, 70},
                                             {std::nullopt}, 8);
}

TEST(StoredRows, KeepTheRulesOfExactness) {
  RigOptions options = with_tables({}, PleResident::never);
  testing::expect_splits_agree("tiny-qwen4_exp", 12, options);
  testing::expect_tail_is_prefill_form(options);
  testing::expect_known_rows_equal_single_steps(options);
  testing::expect_a_reset_slot_remembers_nothing("tiny-qwen4_exp", options);
  testing::expect_inner_logits_leave_the_ids_alone(options);
  testing::expect_poison_changes_nothing("tiny-qwen4_exp", options);
}

TEST(StoredRows, AFailedReadFailsItsSequenceAlone) {
  testing::expect_a_failed_row_fails_its_sequence_alone(LargerTables().folder());
}

TEST(StoredRows, AReadThatFailsForGoodIsNamedAndWhatIsCachedGoesOn) {
  const LargerTables model;
  ModelRig rig(model.folder(), with_tables({}, PleResident::never));
  const std::vector<TokenId> ids = {1, 2, 3};
  const auto first = rig.run(rig.feed(0, Form::prefill, 0, ids, 2), {rig.begin(0)});
  std::filesystem::resize_file(model.file_path(), 4096);  // the tables are gone
  EXPECT_EQ(rig.run(rig.feed(1, Form::prefill, 0, ids, 2), {rig.begin(1)}), first);
  const StepResult result = rig.step({rig.feed(2, Form::prefill, 0, {7, 8, 9}, 2)}, {rig.begin(2)});
  ASSERT_FALSE(result.outcomes[0].done.ok());
  EXPECT_THAT(result.outcomes[0].done.error().what, ::testing::HasSubstr(": the file ends at byte "));
}

TEST(StoredRows, AStepTellsHitsMissesAndPins) {
  const LargerTables model;
  ModelRig rig(model.folder(), with_tables({}, PleResident::never));
  const std::vector<TokenId> ids = {1, 2, 3};
  const StepResult cold = rig.step({rig.feed(0, Form::prefill, 0, ids, 2)}, {rig.begin(0)});
  EXPECT_EQ(cold.stats.ple_misses, 3U * 8 * 2);  // tokens, heads, layers: no two rows of these are the same
  EXPECT_EQ(cold.stats.ple_hits, 0U);
  EXPECT_EQ(cold.stats.ple_pinned, 3 * 8 * 2);
  const StepResult warm = rig.step({rig.feed(1, Form::prefill, 0, ids, 2)}, {rig.begin(1)});
  EXPECT_EQ(warm.stats.ple_misses, 0U);
  EXPECT_EQ(warm.stats.ple_hits, 3U * 8 * 2);
  ModelRig resident(model.folder(), with_tables({}, PleResident::always));
  const StepResult none = resident.step({resident.feed(0, Form::prefill, 0, ids, 2)}, {resident.begin(0)});
  EXPECT_EQ(none.stats.ple_misses + none.stats.ple_hits, 0U);
  EXPECT_FALSE(resident.runner->inject_row_read_error(std::nullopt));
  EXPECT_EQ(resident.runner->row_store_note(), "");
  EXPECT_THAT(rig.runner->row_store_note(), ::testing::HasSubstr("n-gram rows are read from 1 file: "));
}

/// Rows come from the file when they are needed, not before.
TEST(StoredRows, AreReadWhenTheyAreNeeded) {
  const LargerTables model;
  ModelRig resident(model.folder(), with_tables({}, PleResident::always));
  ModelRig stored(model.folder(), with_tables({}, PleResident::never));
  const auto size = std::filesystem::file_size(model.file_path());
  {
    // The tables lie behind everything else.
    std::fstream file(model.file_path(), std::ios::in | std::ios::out | std::ios::binary);
    const std::string zeros(1'500'000, '\0');
    file.seekp(static_cast<std::streamoff>(size - zeros.size()));
    file.write(zeros.data(), static_cast<std::streamsize>(zeros.size()));
  }
  ModelRig zeroed(model.folder(), with_tables({}, PleResident::always));
  const std::vector<TokenId> ids = {1, 2, 3, 4, 5, 6, 7, 8};
  const auto logits = [&](ModelRig& rig) { return testing::trace(rig, 0, ids, {8}, 0).logits; };
  const auto of_stored = logits(stored);
  EXPECT_EQ(of_stored, logits(zeroed));
  EXPECT_NE(of_stored, logits(resident));
}

}  // namespace
}  // namespace model
