#include "model/ple_store/ple_store.h"

#include <algorithm>
#include <cassert>

#include "model/arch/ple_constants.h"

namespace model {
namespace {

/// A cache larger than its table would stay empty.
std::int64_t slots_for(const ServePlan& plan, std::int64_t table_rows) {
  return std::min(plan.ple_cache_slots, table_rows);
}

/// Files of all tables, each once.
struct Files {
  std::vector<std::filesystem::path> paths;

  std::int32_t number_of(const std::filesystem::path& path) {
    const auto known = std::find(paths.begin(), paths.end(), path);
    const auto number = static_cast<std::int32_t>(known - paths.begin());
    if (known == paths.end()) paths.push_back(path);
    return number;
  }
};

}  // namespace

Result<std::unique_ptr<PleStore>, LoadError> PleStore::open(const ModelConfig& config,
                                                            const ModelWeights& weights,
                                                            const ServePlan& plan,
                                                            gpu::FileReaderOptions options) {
  Files files;
  gpu::Bytes largest;
  std::vector<std::vector<std::int32_t>> of_table;
  for (const LayerWeights& layer : weights.layers) {
    if (!layer.ple) continue;
    assert(layer.ple->stored.has_value());  // load_weights was told what the plan says
    auto& numbers = of_table.emplace_back();
    for (const auto& path : layer.ple->stored->files) numbers.push_back(files.number_of(path));
    largest = std::max(largest, layer.ple->stored->row_bytes());
  }
  auto reader = gpu::open_file_reader(files.paths, largest, options);
  if (!reader.ok()) return LoadError{{"n-gram tables: " + std::move(reader).error()}};

  std::unique_ptr<PleStore> store(new PleStore);
  store->reader_ = *std::move(reader);
  store->max_seq_len_ = plan.max_seq_len;
  store->ids_ = std::make_unique_for_overwrite<std::int32_t[]>(
      static_cast<std::size_t>(plan.num_state_slots) * static_cast<std::size_t>(plan.max_seq_len));
  store->rows_.rows.reserve(static_cast<std::size_t>(plan.max_batch_tokens));
  std::int64_t slots = 0, rows = 0;
  for (std::size_t i = 0; i < weights.layers.size(); ++i) {
    const auto& ple = weights.layers[i].ple;
    if (!ple) continue;
    const std::int64_t here = slots_for(plan, ple->stored->rows);
    const auto index = static_cast<LayerIndex>(i);
    store->layers_.push_back(
        {index, std::make_unique<LayerRows>(index, *config.ple, *ple, *store->reader_,
                                            std::move(of_table[store->layers_.size()]), here,
                                            plan.max_batch_tokens, plan.activation)});
    slots += here;
    rows += ple->stored->rows;
  }
  store->description_ = "n-gram rows are read from " + std::to_string(files.paths.size()) +
                        (files.paths.size() == 1 ? " file: " : " files: ") + store->reader_->description() +
                        "; " + std::to_string(slots) + " of " + std::to_string(rows) + " fit the cache";
  return store;
}

PleRows* PleStore::rows_of(LayerIndex layer) const {
  for (const Layer& one : layers_)
    if (one.index == layer) return one.rows.get();
  return nullptr;
}

std::string PleStore::description() const { return description_; }

gpu::Status PleStore::begin(std::span<const Feed* const> feeds) {
  lay_out(feeds);
  const auto drilled = drilled_feed(feeds);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    // One failing read is enough: that of the first table.
    gpu::Status decided = layers_[i].rows->decide(rows_, i == 0 ? drilled : std::nullopt);
    if (decided.ok()) continue;
    finish();
    return decided;
  }
  return gpu::Done{};
}

/// In the order of StepBatch: prefill form first, then decode form, each in the plan's order.
void PleStore::lay_out(std::span<const Feed* const> feeds) {
  rows_.rows.clear();
  for (const Form form : {Form::prefill, Form::decode}) {
    if (form == Form::decode) rows_.num_prefill = rows_.rows.size();
    for (std::size_t i = 0; i < feeds.size(); ++i) {
      const Feed& feed = *feeds[i];
      if (feed.form != form) continue;
      std::int32_t* const ids = ids_.get() + std::int64_t{feed.slot} * max_seq_len_;
      std::copy(feed.known.begin(), feed.known.end(), ids + feed.first);
      for (Position r = 0; r < std::ssize(feed.known); ++r) rows_.rows.push_back({ids, feed.first + r, i});
    }
  }
}

std::optional<std::size_t> PleStore::drilled_feed(std::span<const Feed* const> feeds) {
  for (std::size_t i = 0; drill_ && i < feeds.size(); ++i) {
    if (*drill_ != kAnySequence && *drill_ != feeds[i]->id) continue;
    drill_.reset();
    return i;
  }
  return std::nullopt;
}

void PleStore::finish() {
  for (const Layer& layer : layers_) layer.rows->release();
}

std::optional<std::string> PleStore::failure_of(std::size_t feed) const {
  for (const Layer& layer : layers_)
    for (const LayerRows::Failure& failure : layer.rows->failures())
      if (failure.feed == feed) return failure.what;
  return std::nullopt;
}

RowCounts PleStore::counts() const {
  RowCounts all;
  for (const Layer& layer : layers_) {
    all.hits += layer.rows->counts().hits;
    all.misses += layer.rows->counts().misses;
    all.pinned += layer.rows->counts().pinned;
    all.waited += layer.rows->counts().waited;
  }
  return all;
}

gpu::Bytes ple_store_bytes(const ModelConfig& config, const ServePlan& plan, gpu::Bytes row_bytes) {
  const PleConfig& ple = *config.ple;
  gpu::Bytes bytes =
      gpu::bytes_of<std::int32_t>(gpu::Elements{std::int64_t{plan.num_state_slots} * plan.max_seq_len}) +
      gpu::Bytes{static_cast<std::int64_t>(sizeof(StepRows::Row))} * plan.max_batch_tokens;
  for (std::size_t i = 0; i < ple.layers.size(); ++i) {
    const std::int64_t rows =
        derive_ple_constants(ple, config.vocab_size, static_cast<std::int32_t>(i)).table_rows;
    bytes += layer_rows_bytes(ple, row_bytes, slots_for(plan, rows), plan.max_batch_tokens);
  }
  return bytes;
}

}  // namespace model
