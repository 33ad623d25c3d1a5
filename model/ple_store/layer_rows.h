#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpu/file/file_reader.h"
#include "kernels/ngram_hash.h"
#include "model/layers/ple_rows.h"
#include "model/ple_store/row_cache.h"
#include "model/ple_store/row_values.h"

namespace model {

/// The rows of a step, prefill form before decode form, as StepBatch lays them out.
struct StepRows {
  struct Row {
    const std::int32_t* ids = nullptr;  ///< of the row's sequence, on the host
    Position position = 0;
    std::size_t feed = 0;  ///< index among the step's feeds
  };
  std::vector<Row> rows;
  std::size_t num_prefill = 0;
};

/// How a step's look-ups went.
struct RowCounts {
  std::uint64_t hits = 0, misses = 0;  ///< misses are reads
  std::int64_t pinned = 0;             ///< slots
  double waited = 0.0;                 ///< seconds that the layer waited for its reads
};

/// One layer's table in its files, and the cache of its rows in host memory. A step passes twice: decide()
/// hashes every row, pins its slots and starts the reads of those that are missing; gather(), where the layer
/// runs, waits for them and uploads. release() ends the step, whatever became of it.
class LayerRows final : public PleRows {
 public:
  /// `files`: the reader's numbers of the table's files. `max_rows`: of a step.
  LayerRows(LayerIndex layer, const PleConfig& config, const PleWeights& weights, gpu::FileReader& reader,
            std::vector<std::int32_t> files, std::int64_t num_slots, std::int64_t max_rows,
            gpu::DType activation);

  /// Refused when the cache cannot hold the step's rows, which the plan rules out; then nothing is held.
  /// `drill`: the first row of this feed is read whether it is there or not, and cannot be.
  gpu::Status decide(const StepRows& rows, std::optional<std::size_t> drill);
  gpu::Status gather(StepContext& context, Matrix y) override;
  void release();

  /// What a feed's row could not be read for; valid once gather or release has waited.
  struct Failure {
    std::size_t feed = 0;
    std::string what;
  };
  const std::vector<Failure>& failures() const { return failures_; }
  const RowCounts& counts() const { return counts_; }
  const RowCache& cache() const { return cache_; }

 private:
  struct LookUp {
    std::int64_t row = 0;
    RowCache::Slot slot = -1;
  };
  kernels::NgramConstants constants() const;
  std::byte* bytes_of(RowCache::Slot slot) const { return bytes_.get() + slot * table_.row_bytes().n; }
  bool look_up(std::int64_t row, std::optional<std::int64_t> drilled);
  void abandon();
  void settle(const std::function<void()>& progressed);
  void convert_row(std::size_t row, std::byte* to) const;

  LayerIndex layer_;
  PleConfig config_;
  std::vector<std::int64_t> multipliers_, sizes_, offsets_;
  StoredTable table_;
  RowValues values_;
  gpu::FileReader& reader_;
  std::vector<std::int32_t> files_;
  RowCache cache_;
  std::unique_ptr<std::byte[]> bytes_;  // of all slots
  std::vector<std::byte> upload_;       // some rows of y at a time

  // Of the running step.
  const StepRows* rows_ = nullptr;
  RowCache::Pins pins_;
  std::vector<LookUp> look_ups_;  // row by row, head by head
  gpu::ReadBatch batch_;
  std::vector<RowCache::Slot> fetched_;  // by read
  bool settled_ = true;
  std::vector<Failure> failures_;
  RowCounts counts_;
};

/// Host memory of one layer's rows, for the plan.
gpu::Bytes layer_rows_bytes(const PleConfig& config, gpu::Bytes row_bytes, std::int64_t num_slots,
                            std::int64_t max_rows);

}  // namespace model
