#include "model/ple_store/layer_rows.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cstring>

#include "kernels/ngram_hash.h"

namespace model {
namespace {

// Rows are put together for upload in pieces of this size: while one is on its way the next is made.
constexpr std::int64_t kUploadBytes = 1 << 20;

}  // namespace

LayerRows::LayerRows(LayerIndex layer, const PleConfig& config, const PleWeights& weights,
                     gpu::FileReader& reader, std::vector<std::int32_t> files, std::int64_t num_slots,
                     std::int64_t max_rows, gpu::DType activation)
    : layer_(layer),
      config_(config),
      multipliers_(weights.multipliers),
      sizes_(weights.sizes),
      offsets_(weights.offsets),
      table_(*weights.stored),
      values_(table_, activation),
      reader_(reader),
      files_(std::move(files)),
      cache_(num_slots),
      bytes_(std::make_unique_for_overwrite<std::byte[]>(
          static_cast<std::size_t>(num_slots * table_.row_bytes().n))),
      pins_(cache_.new_pins()) {
  const auto most = static_cast<std::size_t>(max_rows * config.num_heads());
  look_ups_.reserve(most);
  batch_.reads.reserve(most);
  fetched_.reserve(most);
}

kernels::NgramConstants LayerRows::constants() const {
  return {multipliers_.data(), sizes_.data(),           offsets_.data(),
          config_.ngram_size,  config_.heads_per_ngram, config_.eos};
}

gpu::Status LayerRows::decide(const StepRows& rows, std::optional<std::size_t> drill) {
  assert(rows_ == nullptr);
  rows_ = &rows;
  look_ups_.clear();
  batch_.reads.clear();
  fetched_.clear();
  failures_.clear();
  counts_ = {};
  pins_ = cache_.new_pins();
  const kernels::NgramConstants hash = constants();
  std::vector<std::int64_t> ids(static_cast<std::size_t>(config_.num_heads()));
  const auto hash_row = [&](const StepRows::Row& row) {
    kernels::ngram_rows_at(hash, row.ids, row.position, ids.data());
  };
  std::optional<std::int64_t> drilled;
  for (const StepRows::Row& row : rows.rows) {
    if (drilled || row.feed != drill) continue;
    hash_row(row);
    drilled = ids.front();
    cache_.forget(*drilled);
  }
  for (const StepRows::Row& row : rows.rows) {
    hash_row(row);
    for (const std::int64_t id : ids) {
      if (look_up(id, drilled)) continue;
      abandon();
      return gpu::refused("layer " + std::to_string(layer_) + ": " + std::to_string(rows.rows.size()) +
                          " tokens read more n-gram rows than the " + std::to_string(cache_.num_slots()) +
                          " of --ple-cache-slots");
    }
  }
  counts_.misses = batch_.reads.size();
  counts_.hits = look_ups_.size() - batch_.reads.size();
  counts_.pinned = std::ssize(pins_.slots);
  settled_ = false;
  reader_.begin(batch_);
  return gpu::Done{};
}

/// False: there is no slot.
bool LayerRows::look_up(std::int64_t row, std::optional<std::int64_t> drilled) {
  const auto place = cache_.pin(pins_, row);
  if (!place) return false;
  look_ups_.push_back({row, place->slot});
  if (!place->missing) return true;
  const StoredTable::Place at = table_.place_of(row);
  batch_.reads.push_back({files_[static_cast<std::size_t>(at.file)], at.offset, table_.row_bytes(),
                          bytes_of(place->slot), row == drilled});
  fetched_.push_back(place->slot);
  return true;
}

/// What was reserved will not be fetched.
void LayerRows::abandon() {
  for (const RowCache::Slot slot : fetched_) cache_.drop(slot);
  cache_.unpin(pins_);
  rows_ = nullptr;
}

/// Waits for the reads. A slot whose read failed loses its row, and the feeds that wanted the row are named.
void LayerRows::settle(const std::function<void()>& progressed) {
  if (std::exchange(settled_, true)) return;
  const auto begin = std::chrono::steady_clock::now();
  reader_.wait(batch_, progressed);
  counts_.waited = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (batch_.failures.empty()) return;
  std::vector<std::pair<std::int64_t, const std::string*>> failed;  // row, why
  for (const gpu::ReadFailure& failure : batch_.failures) {
    const RowCache::Slot slot = fetched_[failure.read];
    failed.emplace_back(cache_.row_of(slot), &failure.what);
    cache_.drop(slot);
  }
  std::sort(failed.begin(), failed.end());
  const auto heads = static_cast<std::size_t>(config_.num_heads());
  for (std::size_t i = 0; i < look_ups_.size(); ++i) {
    const LookUp& wanted = look_ups_[i];
    if (cache_.row_of(wanted.slot) == wanted.row) continue;
    const std::size_t feed = rows_->rows[i / heads].feed;
    if (!failures_.empty() && failures_.back().feed == feed) continue;
    const auto why = std::lower_bound(failed.begin(), failed.end(), wanted.row,
                                      [](const auto& one, std::int64_t row) { return one.first < row; });
    assert(why != failed.end() && why->first == wanted.row);
    failures_.push_back({feed, "layer " + std::to_string(layer_) + ", n-gram row " +
                                   std::to_string(wanted.row) + ": " + *why->second});
  }
}

gpu::Status LayerRows::gather(StepContext& context, Matrix y) {
  settle([&] { context.stream.note_progress(); });
  const std::size_t first = context.batch.form == kernels::Form::prefill ? 0 : rows_->num_prefill;
  const std::int64_t pitch = gpu::bytes_of(y.dtype, y.pitch).n;
  const std::int64_t piece = std::max<std::int64_t>(1, kUploadBytes / pitch);
  upload_.resize(static_cast<std::size_t>(piece * pitch));
  for (std::int64_t at = 0; at < y.rows.n; at += piece) {
    const std::int64_t count = std::min(piece, y.rows.n - at);
    for (std::int64_t r = 0; r < count; ++r)
      convert_row(first + static_cast<std::size_t>(at + r), upload_.data() + r * pitch);
    RETURN_IF_ERROR(context.stream.copy_to_device(y.from_row(Rows{at}).base, upload_.data(),
                                                  gpu::Bytes{count * pitch}, "n-gram rows"));
  }
  return gpu::Done{};
}

/// Rows that could not be read are zeros: their sequence fails, and no bytes of others get into it.
void LayerRows::convert_row(std::size_t row, std::byte* to) const {
  const auto heads = static_cast<std::size_t>(config_.num_heads());
  const std::int64_t bytes = values_.row_bytes().n;
  for (std::size_t head = 0; head < heads; ++head, to += bytes) {
    const LookUp& wanted = look_ups_[row * heads + head];
    if (cache_.row_of(wanted.slot) == wanted.row) {
      values_.convert(bytes_of(wanted.slot), to);
    } else {
      std::memset(to, 0, static_cast<std::size_t>(bytes));
    }
  }
}

void LayerRows::release() {
  if (rows_ == nullptr) return;
  settle([] {});
  cache_.unpin(pins_);
  rows_ = nullptr;
}

gpu::Bytes layer_rows_bytes(const PleConfig& config, gpu::Bytes row_bytes, std::int64_t num_slots,
                            std::int64_t max_rows) {
  constexpr std::int64_t kLookUp = 16 + sizeof(gpu::FileRead) + sizeof(RowCache::Slot) * 2;
  return row_bytes * num_slots + RowCache::bytes(num_slots) +
         gpu::Bytes{kLookUp} * (max_rows * config.num_heads()) + gpu::Bytes{kUploadBytes};
}

}  // namespace model
