#include "model/runner/step_batch.h"

#include <algorithm>
#include <cstring>

namespace model {

StepBatch::StepBatch(const StepLimits& limits)
    : staging_(static_cast<std::size_t>(staging_bytes(limits).n)) {}

template <class T>
StepBatch::Section StepBatch::append(std::span<const T> values) {
  const Section section{gpu::round_up(used_, 16), std::ssize(values)};
  used_ = section.offset + static_cast<std::int64_t>(values.size_bytes());
  assert(used_ <= std::ssize(staging_));
  if (!values.empty()) std::memcpy(staging_.data() + section.offset, values.data(), values.size_bytes());
  return section;
}

template <class T>
gpu::VectorView<const T> StepBatch::view(Section section) const {
  return {reinterpret_cast<const T*>(device_ + section.offset), gpu::Elements{section.size}};
}

void StepBatch::build(std::span<const Feed* const> feeds, const std::vector<SlotRecord>& slots) {
  used_ = 0;
  sections_.clear();
  placed_.clear();
  totals_ = {};
  row_sampling_.clear();
  row_biases_.clear();
  row_bans_.clear();
  for (const Feed* feed : feeds) {
    Placed placed;
    placed.feed = feed;
    placed.ids = append<TokenId>(feed->known);
    placed.pages = append<PageId>(feed->new_pages);
    placed.first_new_page =
        static_cast<std::int32_t>(slots[static_cast<std::size_t>(feed->slot)].pages.size());
    placed_.push_back(placed);
  }
  add_form(Form::prefill, feeds);
  add_form(Form::decode, feeds);
  sampling_section_ = append<kernels::RowSampling>(row_sampling_);
  bias_section_ = append<kernels::TokenBias>(row_biases_);
  ban_section_ = append<std::int32_t>(row_bans_);
}

void StepBatch::add_form(Form form, std::span<const Feed* const> feeds) {
  for (auto* values :
       {&row_slot_, &row_position_, &segment_slot_, &segment_first_, &segment_rows_, &logits_rows_})
    values->clear();
  FormSections sections;
  sections.form = form;
  sections.first_logits_row = totals_.logits_rows;
  for (std::size_t i = 0; i < feeds.size(); ++i) {
    const Feed& feed = *feeds[i];
    if (feed.form != form) continue;
    const auto rows = static_cast<std::int32_t>(feed.known.size());
    segment_slot_.push_back(feed.slot);
    segment_first_.push_back(sections.num_rows);
    segment_rows_.push_back(rows);
    for (std::int32_t r = 0; r < rows; ++r) {
      row_slot_.push_back(feed.slot);
      row_position_.push_back(feed.first + r);
    }
    placed_[i].first_logits_row = totals_.logits_rows;
    for (std::int32_t r = 0; r < feed.logits.count; ++r)
      logits_rows_.push_back(sections.num_rows + feed.logits.first + r);
    add_sampling(feed);
    totals_.logits_rows += feed.logits.count;
    sections.num_rows += rows;
    sections.max_segment_rows = std::max(sections.max_segment_rows, rows);
    sections.max_position = std::max(sections.max_position, feed.first + rows - 1);
  }
  if (form == Form::prefill) {
    totals_.prefill_rows = sections.num_rows;
  } else {
    totals_.decode_rows = sections.num_rows;
    sections.first_row = first_decode_row(totals_.prefill_rows);
  }
  if (sections.num_rows == 0) return;
  sections.row_slot = append<std::int32_t>(row_slot_);
  sections.row_position = append<std::int32_t>(row_position_);
  sections.segment_slot = append<std::int32_t>(segment_slot_);
  sections.segment_first_row = append<std::int32_t>(segment_first_);
  sections.segment_num_rows = append<std::int32_t>(segment_rows_);
  sections.logits_rows = append<std::int32_t>(logits_rows_);
  sections_.push_back(sections);
}

void StepBatch::add_sampling(const Feed& feed) {
  if (feed.logits.count == 0) return;
  const SamplingParams& params = *feed.sampling;
  kernels::RowSampling row;
  row.temperature = params.temperature;
  row.top_p = params.top_p;
  row.min_p = params.min_p;
  row.top_k = params.top_k;
  row.presence_penalty = params.presence_penalty;
  row.frequency_penalty = params.frequency_penalty;
  row.repetition_penalty = params.repetition_penalty;
  row.seed = params.seed;
  row.slot = feed.slot;
  row.prompt_tokens = feed.prompt_tokens;
  row.num_logprobs = params.num_logprobs;
  row.first_bias = static_cast<std::int32_t>(row_biases_.size());
  row.num_biases = static_cast<std::int32_t>(params.logit_bias.size());
  for (const auto& [token, bias] : params.logit_bias) row_biases_.push_back({token, bias});
  row.first_ban = static_cast<std::int32_t>(row_bans_.size());
  row_bans_.insert(row_bans_.end(), feed.bans.begin(), feed.bans.end());
  const auto num_bans = static_cast<std::int32_t>(feed.bans.size());
  const auto num_given = static_cast<std::int32_t>(feed.given.size());
  for (std::int32_t r = 0; r < feed.logits.count; ++r) {
    row.position = feed.first + feed.logits.first + r + 1;
    row.given_token = r < num_given ? feed.given[static_cast<std::size_t>(r)] : -1;
    // Bans speak of one position, the one that is sampled last.
    row.num_bans = r + 1 == feed.logits.count ? num_bans : 0;
    row_sampling_.push_back(row);
  }
}

gpu::Status StepBatch::upload(gpu::Stream& stream, std::byte* staging, gpu::MatrixView<std::int32_t> ids,
                              gpu::MatrixView<std::int32_t> page_table) {
  device_ = staging;
  RETURN_IF_ERROR(stream.copy_to_device(staging, staging_.data(), gpu::Bytes{used_}, "step upload"));
  for (const Placed& placed : placed_) {
    RETURN_IF_ERROR(write_ids(stream, ids, placed));
    if (placed.pages.size == 0) continue;
    RETURN_IF_ERROR(stream.copy(
        reinterpret_cast<std::byte*>(page_table.row(Rows{placed.feed->slot}) + placed.first_new_page),
        device_ + placed.pages.offset, gpu::bytes_of<PageId>(Elements{placed.pages.size}), "page table"));
  }
  forms_.clear();
  for (const FormSections& sections : sections_) {
    FormRows form;
    form.batch.form = sections.form;
    form.batch.num_rows = Rows{sections.num_rows};
    form.batch.row_slot = view<std::int32_t>(sections.row_slot);
    form.batch.row_position = view<std::int32_t>(sections.row_position);
    form.batch.num_segments = static_cast<std::int32_t>(sections.segment_slot.size);
    form.batch.segment_slot = view<std::int32_t>(sections.segment_slot);
    form.batch.segment_first_row = view<std::int32_t>(sections.segment_first_row);
    form.batch.segment_num_rows = view<std::int32_t>(sections.segment_num_rows);
    form.batch.max_segment_rows = sections.max_segment_rows;
    form.batch.max_position = sections.max_position;
    form.first_row = Rows{sections.first_row};
    form.logits_rows = view<std::int32_t>(sections.logits_rows);
    form.first_logits_row = Rows{sections.first_logits_row};
    forms_.push_back(form);
  }
  sampling_ = view<kernels::RowSampling>(sampling_section_);
  biases_ = view<kernels::TokenBias>(bias_section_);
  bans_ = view<std::int32_t>(ban_section_);
  return gpu::Done{};
}

gpu::Status StepBatch::write_ids(gpu::Stream& stream, gpu::MatrixView<std::int32_t> ids,
                                 const Placed& placed) const {
  const Feed& feed = *placed.feed;
  return stream.copy(reinterpret_cast<std::byte*>(ids.row(Rows{feed.slot}) + feed.first),
                     device_ + placed.ids.offset, gpu::bytes_of<TokenId>(Elements{placed.ids.size}),
                     "token ids");
}

gpu::Status StepBatch::rewrite_known_ids(gpu::Stream& stream, gpu::MatrixView<std::int32_t> ids) const {
  for (const Placed& placed : placed_) {
    const Feed& feed = *placed.feed;
    // The sample of row r is written at the place of row r + 1: harmless for the last row only.
    if (feed.logits.count > 0 && feed.logits.first + 1 < std::ssize(feed.known))
      RETURN_IF_ERROR(write_ids(stream, ids, placed));
  }
  return gpu::Done{};
}

}  // namespace model
