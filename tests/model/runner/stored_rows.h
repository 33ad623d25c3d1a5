#pragma once

#include "exactness.h"
#include "tests/model/ple_store/larger_tables.h"

/// What n-gram rows that stay in their files are tested with, on every backend: resident and stored give the
/// same bits, whatever the cache holds.
namespace model::testing {

inline RigOptions with_tables(RigOptions options, PleResident resident,
                              std::optional<std::int64_t> slots = {}) {
  options.ple_resident = resident;
  options.ple_cache_slots = slots;
  return options;
}

/// Prompts of these lengths together, in random chunks beside decode rows, on a rig with resident tables and
/// on rigs that read them with caches of these sizes (none: the plan's).
inline void expect_stored_rows_change_nothing(const std::string& folder,
                                              const std::vector<std::size_t>& lengths,
                                              const std::vector<std::optional<std::int64_t>>& caches,
                                              std::size_t decode_tokens, RigOptions options = {}) {
  options.max_prefill_tokens = 192;
  options.max_batch_size = static_cast<std::int32_t>(lengths.size());
  std::mt19937 random(1234);
  std::vector<Job> jobs(lengths.size());
  for (std::size_t j = 0; j < jobs.size(); ++j) jobs[j].ids = random_ids(random, lengths[j]);
  const auto schedule = random;  // every rig is driven alike
  ModelRig resident(folder, with_tables(options, PleResident::always));
  ASSERT_EQ(resident.plan.ple_tables, PleTables::resident);
  auto drawn = schedule;
  const auto expected = run_together(resident, jobs, drawn, decode_tokens);
  for (const auto& slots : caches) {
    SCOPED_TRACE(slots ? std::to_string(*slots) + " slots" : "slots of the plan");
    ModelRig stored(folder, with_tables(options, PleResident::never, slots));
    ASSERT_EQ(stored.plan.ple_tables, PleTables::stored);
    drawn = schedule;
    const auto got = run_together(stored, jobs, drawn, decode_tokens);
    for (std::size_t j = 0; j < jobs.size(); ++j) {
      SCOPED_TRACE("prompt of " + std::to_string(lengths[j]));
      expect_same(got[j], expected[j]);
    }
    EXPECT_LE(stored.runner->arena_high_water(), stored.plan.arena_bytes);
  }
}

/// A row of sequence 2 cannot be read: its feed fails, its slot is not to be fed, and the others neither
/// notice nor change.
inline void expect_a_failed_row_fails_its_sequence_alone(const std::string& folder, RigOptions options = {}) {
  options.max_batch_size = 3;
  ModelRig rig(folder, with_tables(options, PleResident::never));
  ModelRig calm(folder, with_tables(options, PleResident::never));
  std::mt19937 random(77);
  const auto a = random_ids(random, 20), b = random_ids(random, 30), c = random_ids(random, 10);
  const auto prompts = [&](ModelRig& of) {
    return of.step({of.feed(0, Form::prefill, 0, a, 19), of.feed(1, Form::prefill, 0, b, 29),
                    of.feed(2, Form::prefill, 0, c, 9)},
                   {of.begin(0), of.begin(1), of.begin(2)});
  };
  const auto first = prompts(rig);
  const auto next = [&](ModelRig& of) {
    return of.step({of.feed(0, Form::decode, 20, {5}, 0), of.feed(1, Form::decode, 30, {6}, 0),
                    of.feed(2, Form::decode, 10, {7}, 0)});
  };
  prompts(calm);
  ASSERT_TRUE(rig.runner->inject_row_read_error(SequenceId{2}));  // the rig's sequence of slot 1
  const StepResult failed = next(rig), well = next(calm);
  ASSERT_FALSE(failed.outcomes[1].done.ok());
  const std::string what = failed.outcomes[1].done.error().what;
  EXPECT_NE(what.find("sequence 2: layer 1, n-gram row "), std::string::npos) << what;
  EXPECT_NE(what.find("model.safetensors bytes "), std::string::npos) << what;
  for (const std::size_t feed : {0, 2}) {
    EXPECT_EQ(ModelRig::sampled(failed, feed), ModelRig::sampled(well, feed));
    const auto slot = static_cast<StateSlot>(feed);
    const Position fed = feed == 0 ? 21 : 11;
    expect_same(rig.runner->read_state(slot, fed), calm.runner->read_state(slot, fed));
  }
  // Half fed, so not to be fed on; a new sequence in its place is as good as any.
  const StepResult refused = rig.step({rig.feed(1, Form::decode, 30, {6}, 0)});
  ASSERT_FALSE(refused.outcomes[0].done.ok());
  EXPECT_NE(refused.outcomes[0].done.error().what.find("was broken"), std::string::npos);
  expect_same(trace(rig, 1, c, {10}, 3), trace(calm, 1, c, {10}, 3));
}

}  // namespace model::testing
