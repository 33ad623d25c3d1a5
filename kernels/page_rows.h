#pragma once

#include "kernels/attention.h"

/// Where positions lie in paged memory, and which of them a row attends to. Plain integers, shared by the
/// sequence operations.
namespace kernels {

/// Row of a paged cache that holds (slot, position).
constexpr std::int64_t page_row(const PageTables& pages, std::int32_t slot, std::int32_t position) {
  const std::int64_t page = pages.table.row(Rows{slot})[position / pages.block];
  return page * pages.block + position % pages.block;
}

/// Row of a paged cache of closed index keys, one per `ratio` positions, that holds block `index` of a
/// sequence.
constexpr std::int64_t closed_row(const PageTables& pages, std::int32_t slot, std::int32_t ratio,
                                  std::int32_t index) {
  const std::int32_t position = ratio * index;
  const std::int64_t page = pages.table.row(Rows{slot})[position / pages.block];
  return page * (pages.block / ratio) + (position % pages.block) / ratio;
}

/// The ascending positions that one row attends to: everything up to its own position, or the selected blocks
/// and the open tail.
class PositionList {
 public:
  constexpr PositionList(const Selection& selection, std::int64_t row, std::int32_t position) {
    size_ = position + 1;
    if (selection.blocks.base == nullptr) return;
    const std::int32_t closed = size_ / selection.ratio;
    if (closed <= selection.top_blocks) return;
    blocks_ = selection.blocks.row(Rows{row});
    ratio_ = selection.ratio;
    num_selected_ = ratio_ * selection.top_blocks;
    tail_shift_ = ratio_ * closed - num_selected_;
    size_ = num_selected_ + size_ % ratio_;
  }

  constexpr bool is_identity() const { return blocks_ == nullptr; }
  constexpr std::int32_t size() const { return size_; }
  constexpr std::int32_t position(std::int32_t index) const {
    if (is_identity()) return index;
    if (index >= num_selected_) return index + tail_shift_;
    return blocks_[index / ratio_] * ratio_ + index % ratio_;
  }

 private:
  const std::int32_t* blocks_ = nullptr;
  std::int32_t size_ = 0;
  std::int32_t ratio_ = 1;
  std::int32_t num_selected_ = 0;
  std::int32_t tail_shift_ = 0;
};

}  // namespace kernels
