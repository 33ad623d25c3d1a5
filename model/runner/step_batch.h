#pragma once

#include <span>
#include <vector>

#include "model/layers/decoder.h"
#include "model/runner/plan_check.h"

namespace model {

/// One step's feeds as what kernels read: a single packed upload, and views into it. Rows of the prefill-form
/// feeds come first, in the plan's order; decode-form rows begin at the next multiple of 64 of the residual.
/// Kept by the Runner and refilled every step, so that a step allocates nothing once the vectors have grown.
class StepBatch {
 public:
  explicit StepBatch(const StepLimits& limits);

  /// `feeds` were accepted by check_feed. Lays out everything; nothing touches the device.
  void build(std::span<const Feed* const> feeds, const std::vector<SlotRecord>& slots);

  /// Uploads to `staging`, then puts ids and new pages in their slots' device rows.
  gpu::Status upload(gpu::Stream& stream, std::byte* staging, gpu::MatrixView<std::int32_t> ids,
                     gpu::MatrixView<std::int32_t> page_table);
  /// Writes known ids again where sampling a row within them has overwritten them.
  gpu::Status rewrite_known_ids(gpu::Stream& stream, gpu::MatrixView<std::int32_t> ids) const;

  /// Valid after upload.
  std::span<const FormRows> forms() const { return forms_; }
  gpu::VectorView<const kernels::RowSampling> sampling() const { return sampling_; }
  gpu::VectorView<const kernels::TokenBias> biases() const { return biases_; }
  gpu::VectorView<const std::int32_t> bans() const { return bans_; }

  const StepTotals& totals() const { return totals_; }
  /// Where the sampled rows of feed i (of `build`'s) begin.
  std::int32_t first_logits_row(std::size_t feed) const { return placed_[feed].first_logits_row; }

 private:
  /// A run of values inside the staging bytes.
  struct Section {
    std::int64_t offset = 0;
    std::int64_t size = 0;  // values
  };
  template <class T>
  Section append(std::span<const T> values);
  template <class T>
  gpu::VectorView<const T> view(Section section) const;

  struct FormSections {
    Form form = Form::decode;
    std::int32_t num_rows = 0, max_segment_rows = 0, max_position = 0;
    std::int32_t first_row = 0, first_logits_row = 0;
    Section row_slot, row_position, segment_slot, segment_first_row, segment_num_rows, logits_rows;
  };
  /// A feed's ids and pages inside the staging bytes.
  struct Placed {
    const Feed* feed = nullptr;
    Section ids, pages;
    std::int32_t first_new_page = 0;
    std::int32_t first_logits_row = 0;
  };
  void add_form(Form form, std::span<const Feed* const> feeds);
  void add_sampling(const Feed& feed);
  gpu::Status write_ids(gpu::Stream& stream, gpu::MatrixView<std::int32_t> ids, const Placed& placed) const;

  std::vector<std::byte> staging_;
  std::int64_t used_ = 0;
  const std::byte* device_ = nullptr;
  std::vector<FormSections> sections_;
  std::vector<Placed> placed_;
  std::vector<FormRows> forms_;
  StepTotals totals_;
  Section sampling_section_, bias_section_, ban_section_;
  gpu::VectorView<const kernels::RowSampling> sampling_;
  gpu::VectorView<const kernels::TokenBias> biases_;
  gpu::VectorView<const std::int32_t> bans_;

  // Filled anew for each step; members only to keep their memory.
  std::vector<std::int32_t> row_slot_, row_position_, segment_slot_, segment_first_, segment_rows_,
      logits_rows_;
  std::vector<kernels::RowSampling> row_sampling_;
  std::vector<kernels::TokenBias> row_biases_;
  std::vector<std::int32_t> row_bans_;
};

}  // namespace model
