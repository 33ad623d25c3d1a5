#include "model/runner/step_batch.h"

#include <gtest/gtest.h>

#include "gpu/device.h"

namespace model {
namespace {

ServePlan plan_of(std::int32_t slots) {
  ServePlan plan;
  plan.max_seq_len = 256;
  plan.max_batch_size = plan.num_state_slots = slots;
  plan.chunk_width = plan.max_prefill_tokens = 128;
  plan.max_step_rows = 128 + 63 + slots;
  plan.block_size = 16;
  plan.pages_per_sequence = 16;
  plan.num_pages = 64;
  plan.vocab_size = 1000;
  return plan;
}

Feed feed(StateSlot slot, Form form, Position first, std::vector<TokenId> known, RowRange logits = {}) {
  Feed made;
  made.slot = slot;
  made.form = form;
  made.first = first;
  made.known = std::move(known);
  made.logits = logits;
  auto sampling = std::make_shared<SamplingParams>();
  sampling->seed = static_cast<std::uint64_t>(100 + slot);
  made.sampling = sampling;
  return made;
}

template <class T>
std::vector<std::remove_const_t<T>> values(gpu::VectorView<T> view) {
  return {view.base, view.base + view.size.n};
}

class StepBatchTest : public ::testing::Test {
 protected:
  StepBatchTest() : device_(gpu::make_host_device(1)), stream_(*device_->create_stream()) {
    staging_.resize(static_cast<std::size_t>(staging_bytes(limits_).n) + 16);
    ids_.resize(4 * 256, -1);
    pages_.resize(4 * 16, -1);
  }
  std::byte* staging() {
    const auto at = reinterpret_cast<std::uintptr_t>(staging_.data());
    return staging_.data() + (16 - at % 16) % 16;
  }
  gpu::MatrixView<std::int32_t> ids() { return {ids_.data(), Rows{4}, Elements{256}, Elements{256}}; }
  gpu::MatrixView<std::int32_t> pages() { return {pages_.data(), Rows{4}, Elements{16}, Elements{16}}; }
  void build(const std::vector<Feed>& feeds) {
    std::vector<const Feed*> pointers;
    for (const Feed& one : feeds) pointers.push_back(&one);
    batch_.build(pointers, slots_);
    ASSERT_TRUE(batch_.upload(*stream_, staging(), ids(), pages()).ok());
  }
  TokenId id(StateSlot slot, Position p) const { return ids_[static_cast<std::size_t>(slot * 256 + p)]; }

  StepLimits limits_ = step_limits(plan_of(4));
  std::unique_ptr<gpu::Device> device_;
  std::unique_ptr<gpu::Stream> stream_;
  std::vector<std::byte> staging_;
  std::vector<std::int32_t> ids_, pages_;
  std::vector<SlotRecord> slots_ = std::vector<SlotRecord>(4);
  StepBatch batch_{limits_};
};

TEST_F(StepBatchTest, PrefillRowsComeFirstAndDecodeRowsStartAtTheNextMultipleOf64) {
  for (const auto& [prefill, first] : {std::pair{1, 64}, {63, 64}, {64, 64}, {65, 128}}) {
    build({feed(2, Form::decode, 40, {7}, {0, 1}),
           feed(0, Form::prefill, 64, std::vector<TokenId>(static_cast<std::size_t>(prefill), 1),
                {prefill - 1, 1})});
    ASSERT_EQ(batch_.forms().size(), 2U);
    EXPECT_EQ(batch_.forms()[0].batch.form, Form::prefill);
    EXPECT_EQ(batch_.forms()[0].first_row, Rows{0});
    EXPECT_EQ(batch_.forms()[1].batch.form, Form::decode);
    EXPECT_EQ(batch_.forms()[1].first_row, Rows{first}) << prefill;
    // Logits rows are ordered by form; a feed is found by its place in the plan.
    EXPECT_EQ(batch_.first_logits_row(0), 1);
    EXPECT_EQ(batch_.first_logits_row(1), 0);
  }
  build({feed(2, Form::decode, 40, {7})});
  ASSERT_EQ(batch_.forms().size(), 1U);
  EXPECT_EQ(batch_.forms()[0].first_row, Rows{0});
}

TEST_F(StepBatchTest, RowsAndSegmentsNameSlotAndPosition) {
  build({feed(3, Form::prefill, 64, {10, 11, 12}, {1, 2}), feed(1, Form::prefill, 0, {20, 21}, {1, 1})});
  const FormRows& form = batch_.forms()[0];
  EXPECT_EQ(values(form.batch.row_slot), (std::vector<std::int32_t>{3, 3, 3, 1, 1}));
  EXPECT_EQ(values(form.batch.row_position), (std::vector<std::int32_t>{64, 65, 66, 0, 1}));
  EXPECT_EQ(values(form.batch.segment_slot), (std::vector<std::int32_t>{3, 1}));
  EXPECT_EQ(values(form.batch.segment_first_row), (std::vector<std::int32_t>{0, 3}));
  EXPECT_EQ(values(form.batch.segment_num_rows), (std::vector<std::int32_t>{3, 2}));
  EXPECT_EQ(values(form.logits_rows), (std::vector<std::int32_t>{1, 2, 4}));
  EXPECT_EQ(form.batch.max_segment_rows, 3);
  EXPECT_EQ(form.batch.max_position, 66);
  EXPECT_EQ(id(3, 64), 10);
  EXPECT_EQ(id(3, 66), 12);
  EXPECT_EQ(id(3, 67), -1);
  EXPECT_EQ(id(1, 1), 21);
}

TEST_F(StepBatchTest, EachSampledRowCarriesItsOwnPositionAndOnlyTheLastTheBans) {
  Feed two = feed(1, Form::decode, 30, {5, 6}, {0, 2});
  two.bans = {8, 9};
  two.prompt_tokens = 29;
  Feed biased = feed(0, Form::decode, 10, {4}, {0, 1});
  auto sampling = std::make_shared<SamplingParams>();
  sampling->logit_bias = {{3, -1.5F}};
  biased.sampling = sampling;
  build({two, biased});
  const auto rows = values(batch_.sampling());
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].position, 31);
  EXPECT_EQ(rows[1].position, 32);
  EXPECT_EQ(rows[2].position, 11);
  EXPECT_EQ(rows[0].num_bans, 0);
  EXPECT_EQ(rows[1].num_bans, 2);
  EXPECT_EQ(batch_.bans().base[rows[1].first_ban + 1], 9);
  EXPECT_EQ(rows[1].seed, 101U);
  EXPECT_EQ(rows[1].prompt_tokens, 29);
  EXPECT_EQ(rows[1].num_biases, 0);
  ASSERT_EQ(rows[2].num_biases, 1);
  EXPECT_EQ(batch_.biases().base[rows[2].first_bias].token, 3);
}

TEST_F(StepBatchTest, NewPagesAreAppendedToTheSlotsTable) {
  slots_[2].pages = {40, 41};
  Feed grows = feed(2, Form::decode, 32, {1});
  grows.new_pages = {17, 18};
  build({grows});
  EXPECT_EQ(pages_[2 * 16 + 1], -1);  // what was there before is not written again
  EXPECT_EQ(pages_[2 * 16 + 2], 17);
  EXPECT_EQ(pages_[2 * 16 + 3], 18);
  EXPECT_EQ(pages_[2 * 16 + 4], -1);
}

TEST_F(StepBatchTest, TheLargestStepFitsTheStaging) {
  std::vector<Feed> feeds;
  auto sampling = std::make_shared<SamplingParams>();
  sampling->logit_bias.assign(kMaxBiases, {1, 1.0F});
  for (StateSlot slot = 0; slot < 4; ++slot) {
    const bool prefill = slot == 0;
    Feed wide = feed(slot, prefill ? Form::prefill : Form::decode, 0,
                     std::vector<TokenId>(prefill     ? 1
                                          : slot == 1 ? 128
                                                      : 1,
                                          1),
                     {0, 1});
    wide.sampling = sampling;
    wide.bans.assign(kMaxBans, 2);
    wide.new_pages.assign(16, 3);
    feeds.push_back(wide);
  }
  build(feeds);  // asserts inside when it does not
  EXPECT_EQ(batch_.totals().decode_rows, 130);
}

}  // namespace
}  // namespace model
