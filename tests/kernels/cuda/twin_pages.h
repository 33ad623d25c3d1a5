#pragma once

#include "tests/kernels/cuda/twin.h"

namespace kernels::testing {

/// Shuffled pages on the host and their table on the device too.
class TwinPages {
 public:
  TwinPages(std::int32_t num_slots, std::int32_t max_positions, std::int32_t block, std::mt19937& rng)
      : host_(num_slots, max_positions, block, rng), table_(copy_of(host_.tables())) {}

  PageTables tables(bool on_device) {
    PageTables tables = host_.tables();
    if (on_device) tables.table.base = table_.view().base;
    return tables;
  }
  std::int64_t num_rows() const { return host_.num_pages() * host_.tables().block; }
  std::int64_t row_of(std::int32_t slot, std::int32_t position) const { return host_.row_of(slot, position); }

 private:
  static std::vector<std::int32_t> copy_of(const PageTables& pages) {
    return {pages.table.base, pages.table.base + pages.table.rows.n * pages.table.pitch.n};
  }
  ShuffledPages host_;
  DeviceVector<std::int32_t> table_;
};

/// A batch on the host and on the device.
class TwinBatch {
 public:
  TwinBatch(Form form, const std::vector<Segment>& segments)
      : host_(form, segments), device_(host_.batch()) {}
  const RowBatch& at(bool on_device) const { return on_device ? device_.batch() : host_.batch(); }
  std::int64_t num_rows() const { return host_.batch().num_rows.n; }

 private:
  SegmentRows host_;
  DeviceBatch device_;
};

inline gpu::ConstVector vector_of(Twin& weights, bool on_device) {
  const gpu::Matrix m = weights.at(on_device);
  return {m.base, gpu::DType::f32, m.cols};
}

}  // namespace kernels::testing
