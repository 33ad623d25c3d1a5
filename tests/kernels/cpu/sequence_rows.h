#pragma once

#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "gpu/stream.h"
#include "kernels/batch.h"

/// Small values that the tests of sequence operations share: a stream over real threads, segments, page
/// tables, poisoned matrices.
namespace kernels::testing {

inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// Runs tiles on `num_workers` fresh threads; with one worker in descending order, which no kernel may
/// notice.
class ThreadsStream final : public gpu::HostStream {
 public:
  explicit ThreadsStream(int num_workers = 1) : num_workers_(num_workers) {}

  gpu::Status parallel(const char*, std::int64_t num_tiles,
                       const std::function<void(std::int64_t)>& tile) override {
    if (num_workers_ == 1) {
      for (std::int64_t i = num_tiles - 1; i >= 0; --i) tile(i);
      return gpu::Done{};
    }
    std::atomic<std::int64_t> next{0};
    std::vector<std::thread> workers;
    for (int w = 0; w < num_workers_; ++w) {
      workers.emplace_back([&] {
        for (std::int64_t i = next.fetch_add(1); i < num_tiles; i = next.fetch_add(1)) tile(i);
      });
    }
    for (std::thread& worker : workers) worker.join();
    return gpu::Done{};
  }
  gpu::Status synchronize() override { return gpu::Done{}; }
  gpu::Status fill_zero(std::byte* base, gpu::Bytes size, const char*) override {
    std::memset(base, 0, static_cast<std::size_t>(size.n));
    return gpu::Done{};
  }
  gpu::Status copy(std::byte* to, const std::byte* from, gpu::Bytes size, const char*) override {
    std::memcpy(to, from, static_cast<std::size_t>(size.n));
    return gpu::Done{};
  }
  gpu::Status copy_to_device(std::byte* to, const void* from, gpu::Bytes size, const char*) override {
    std::memcpy(to, from, static_cast<std::size_t>(size.n));
    return gpu::Done{};
  }
  gpu::Status copy_to_host(void* to, const std::byte* from, gpu::Bytes size, const char*) override {
    std::memcpy(to, from, static_cast<std::size_t>(size.n));
    return gpu::Done{};
  }
  std::uint64_t progress() const override { return 0; }
  void note_progress() override {}

 private:
  int num_workers_;
};

/// A matrix whose elements, and the padding between rows, start as NaN: whatever an op reads without having
/// been given shows.
struct Floats {
  std::int64_t rows, cols, pitch;
  std::vector<float> values;

  Floats(std::int64_t num_rows, std::int64_t num_cols)
      : rows(num_rows),
        cols(num_cols),
        pitch(num_cols + 16),
        values(static_cast<std::size_t>(num_rows * (num_cols + 16)), kNaN) {}

  float* row(std::int64_t r) { return values.data() + r * pitch; }
  const float* row(std::int64_t r) const { return values.data() + r * pitch; }
  float& at(std::int64_t r, std::int64_t c) { return row(r)[c]; }
  float at(std::int64_t r, std::int64_t c) const { return row(r)[c]; }

  gpu::Matrix view() {
    return {reinterpret_cast<std::byte*>(values.data()), gpu::DType::f32, {rows}, {cols}, {pitch}};
  }
  gpu::ConstMatrix view() const {
    return {reinterpret_cast<const std::byte*>(values.data()), gpu::DType::f32, {rows}, {cols}, {pitch}};
  }
  /// Rows [first, first + n) as a matrix of their own.
  gpu::Matrix part(std::int64_t first, std::int64_t n) { return view().from_row({first}).first_rows({n}); }
  gpu::ConstMatrix part(std::int64_t first, std::int64_t n) const {
    return view().from_row({first}).first_rows({n});
  }
  void fill(float value) {
    for (std::int64_t r = 0; r < rows; ++r) std::fill_n(row(r), cols, value);
  }
  void randomize(std::mt19937& rng, float deviation = 1.0F) {
    std::normal_distribution<float> normal(0.0F, deviation);
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < cols; ++c) at(r, c) = normal(rng);
    }
  }
};

/// Bit equality over columns, padding included: an op must not write there either.
inline bool same_bits(const Floats& a, const Floats& b) {
  return a.values.size() == b.values.size() &&
         std::memcmp(a.values.data(), b.values.data(), a.values.size() * sizeof(float)) == 0;
}
inline bool same_bits(const float* a, const float* b, std::int64_t n) {
  return std::memcmp(a, b, static_cast<std::size_t>(n) * sizeof(float)) == 0;
}

inline gpu::ConstVector vector_of(const std::vector<float>& values) {
  return {reinterpret_cast<const std::byte*>(values.data()),
          gpu::DType::f32,
          {static_cast<std::int64_t>(values.size())}};
}
template <class T>
gpu::VectorView<const T> view_of(const std::vector<T>& values) {
  return {values.data(), {static_cast<std::int64_t>(values.size())}};
}

struct Segment {
  std::int32_t slot, first_position, num_rows;
};

/// Owns the arrays of a RowBatch.
class SegmentRows {
 public:
  SegmentRows(Form form, const std::vector<Segment>& segments) {
    for (const Segment& s : segments) {
      segment_slot_.push_back(s.slot);
      first_row_.push_back(static_cast<std::int32_t>(slot_.size()));
      num_rows_.push_back(s.num_rows);
      for (std::int32_t i = 0; i < s.num_rows; ++i) {
        slot_.push_back(s.slot);
        position_.push_back(s.first_position + i);
        batch_.max_position = std::max(batch_.max_position, s.first_position + i);
      }
      batch_.max_segment_rows = std::max(batch_.max_segment_rows, s.num_rows);
    }
    batch_.form = form;
    batch_.num_rows = {static_cast<std::int64_t>(slot_.size())};
    batch_.num_segments = static_cast<std::int32_t>(segments.size());
    batch_.row_slot = view_of(slot_);
    batch_.row_position = view_of(position_);
    batch_.segment_slot = view_of(segment_slot_);
    batch_.segment_first_row = view_of(first_row_);
    batch_.segment_num_rows = view_of(num_rows_);
  }
  SegmentRows(const SegmentRows&) = delete;
  SegmentRows& operator=(const SegmentRows&) = delete;
  const RowBatch& batch() const { return batch_; }

 private:
  std::vector<std::int32_t> slot_, position_, segment_slot_, first_row_, num_rows_;
  RowBatch batch_;
};

/// Page tables of `num_slots` sequences over shuffled pages; page 0 belongs to nobody.
class ShuffledPages {
 public:
  ShuffledPages(std::int32_t num_slots, std::int32_t max_positions, std::int32_t block, std::mt19937& rng)
      : block_(block),
        max_pages_((max_positions + block - 1) / block),
        table_(static_cast<std::size_t>(num_slots * max_pages_)) {
    std::iota(table_.begin(), table_.end(), 1);
    std::shuffle(table_.begin(), table_.end(), rng);
    tables_ = {{table_.data(), {num_slots}, {max_pages_}, {max_pages_}}, block};
  }
  ShuffledPages(const ShuffledPages&) = delete;
  ShuffledPages& operator=(const ShuffledPages&) = delete;

  const PageTables& tables() const { return tables_; }
  std::int64_t num_pages() const { return static_cast<std::int64_t>(table_.size()) + 1; }
  std::int64_t row_of(std::int32_t slot, std::int32_t position) const {
    const std::int32_t page = table_[static_cast<std::size_t>(slot * max_pages_ + position / block_)];
    return std::int64_t{page} * block_ + position % block_;
  }

 private:
  std::int32_t block_, max_pages_;
  std::vector<std::int32_t> table_;
  PageTables tables_;
};

/// Cuts [0, total) at random places; every cut but the last is a multiple of `grid`.
inline std::vector<std::int32_t> random_cuts(std::int32_t total, std::int32_t grid, std::int32_t longest,
                                             std::mt19937& rng) {
  std::vector<std::int32_t> cuts{0};
  std::uniform_int_distribution<std::int32_t> length(1, std::max(1, longest / grid));
  while (cuts.back() < total) cuts.push_back(std::min(total, cuts.back() + grid * length(rng)));
  return cuts;
}

}  // namespace kernels::testing
