#include "model/runner/runner.h"

#include <chrono>
#include <limits>
#include <optional>
#include <utility>

#include "model/layers/decoder.h"
#include "model/layers/slot_state.h"
#include "model/ple_store/ple_store.h"
#include "model/runner/device_constants.h"
#include "model/runner/model_memory.h"
#include "model/runner/state_reader.h"
#include "model/runner/step_batch.h"
#include "model/runner/step_drill.h"

namespace model {
namespace {

/// Members are ordered so that what lies in device memory goes before the device does.
class ModelRunner final : public Runner {
 public:
  ModelRunner(std::shared_ptr<gpu::Device> device, std::unique_ptr<gpu::Stream> stream,
              std::unique_ptr<kernels::Ops> ops, ModelConfig config, ModelWeights weights,
              const ServePlan& plan, ModelMemory memory, DeviceConstants constants,
              std::unique_ptr<PleStore> row_store)
      : device_(std::move(device)),
        stream_(std::move(stream)),
        ops_(std::move(ops)),
        config_(std::move(config)),
        plan_(plan),
        weights_(std::move(weights)),
        memory_(std::move(memory)),
        constants_(std::move(constants)),
        row_store_(std::move(row_store)),
        decoder_(config_, weights_, memory_.layers, constants_.rope),
        batch_(step_limits(plan)),
        slots_(static_cast<std::size_t>(plan.num_state_slots)) {
    for (SlotRecord& slot : slots_) slot.pages.reserve(static_cast<std::size_t>(plan.pages_per_sequence));
  }

  Result<StepResult, FatalError> step(const StepPlan& plan) override;
  std::uint64_t progress() const override { return stream_->progress(); }
  void set_probe(ForwardProbe* probe) override { probe_ = probe; }
  void set_drill(StepDrill* drill) override { drill_ = drill; }
  std::vector<std::pair<std::string, std::vector<float>>> read_state(StateSlot slot, Position fed) override {
    return read_slot_state(*stream_, config_, plan_, memory_.layers, slots_[static_cast<std::size_t>(slot)],
                           slot, fed);
  }
  gpu::Bytes arena_high_water() const override { return memory_.step.high_water(); }
  bool inject_row_read_error(std::optional<SequenceId> sequence) override {
    if (row_store_) row_store_->fail_next_read(sequence);
    return row_store_ != nullptr;
  }
  std::string row_store_note() const override { return row_store_ ? row_store_->description() : ""; }

 private:
  gpu::Status run(const StepPlan& plan);
  gpu::Status run_feeds();
  gpu::Status reset(const std::vector<StateSlot>& resets);
  void begin(const std::vector<StateSlot>& resets);
  void accept(const StepPlan& plan, StepResult& result);
  gpu::Status poison(const gpu::Matrix& logits);
  void commit(StepResult& result);
  void fail(const StepPlan& plan, const StepError& error, StepResult& result);
  void end_rows(StepStats& stats);
  std::optional<std::string> problem_of(std::size_t accepted, std::int32_t first_row) const;
  FeedDone read_sampled(const Feed& feed, std::int32_t first_row) const;
  FatalError lose(std::string what) {
    lost_ = std::move(what);
    return {*lost_};
  }
  bool has_slot(StateSlot slot) const { return slot >= 0 && slot < plan_.num_state_slots; }
  SlotRecord& record(StateSlot slot) { return slots_[static_cast<std::size_t>(slot)]; }

  std::shared_ptr<gpu::Device> device_;
  std::unique_ptr<gpu::Stream> stream_;
  std::unique_ptr<kernels::Ops> ops_;
  ModelConfig config_;
  ServePlan plan_;
  ModelWeights weights_;
  ModelMemory memory_;
  DeviceConstants constants_;
  std::unique_ptr<PleStore> row_store_;  ///< null: n-gram tables are resident, or there are none
  Decoder decoder_;
  StepBatch batch_;
  std::vector<SlotRecord> slots_;
  ForwardProbe* probe_ = nullptr;
  std::optional<std::string> lost_;
  StepDrill* drill_ = nullptr;

  // Of the running step; members only to keep their memory.
  std::vector<const Feed*> accepted_;
  std::vector<std::size_t> accepted_index_;  // in the plan
  std::vector<kernels::SampledRow> sampled_;
};

Result<StepResult, FatalError> ModelRunner::step(const StepPlan& plan) {
  if (lost_) return FatalError{*lost_};
  const auto start = std::chrono::steady_clock::now();
  StepResult result;
  result.number = plan.number;
  if (drill_ != nullptr) drill_->begin_step(plan);
  begin(plan.resets);
  accept(plan, result);
  if (row_store_ && drill_ != nullptr) {
    if (const auto whose = drill_->unread_row(plan)) row_store_->fail_next_read(whose);
  }
  // Reads begin first, so that they are under way while the layers before the first table run.
  gpu::Status ran = row_store_ ? row_store_->begin(accepted_) : gpu::Status(gpu::Done{});
  batch_.build(accepted_, slots_);
  result.stats.prefill_rows = batch_.totals().prefill_rows;
  result.stats.decode_rows = batch_.totals().decode_rows;
  if (ran.ok()) ran = run(plan);
  end_rows(result.stats);
  if (!ran.ok() && ran.error().kind == gpu::DeviceError::Kind::refused) {
    // What was enqueued before the refusal drains before anybody touches the device again.
    if (gpu::Status drained = stream_->synchronize();
        !drained.ok() && drained.error().kind == gpu::DeviceError::Kind::lost)
      ran = std::move(drained);
  }
  if (ran.ok()) {
    commit(result);
  } else {
    EngineError error = from_device(std::move(ran).error());
    if (auto* fatal = std::get_if<FatalError>(&error)) return lose(std::move(fatal->what));
    fail(plan, std::get<StepError>(error), result);
  }
  result.stats.fallbacks = ops_->take_fallbacks();
  result.stats.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

/// Who had a part in the step has none in what it left behind; nobody else's state was touched.
void ModelRunner::fail(const StepPlan& plan, const StepError& error, StepResult& result) {
  for (const StateSlot slot : plan.resets)
    if (has_slot(slot)) record(slot).status = SlotRecord::Status::broken;
  for (std::size_t i = 0; i < accepted_.size(); ++i) {
    record(accepted_[i]->slot).status = SlotRecord::Status::broken;
    result.outcomes[accepted_index_[i]].done = error;
  }
}

void ModelRunner::begin(const std::vector<StateSlot>& resets) {
  for (const StateSlot slot : resets)
    if (has_slot(slot)) record(slot).begin_sequence();
}

/// Sorts the feeds into those that run and those that are answered at once.
void ModelRunner::accept(const StepPlan& plan, StepResult& result) {
  accepted_.clear();
  accepted_index_.clear();
  result.outcomes.reserve(plan.feeds.size());
  StepTotals totals;
  for (const Feed& feed : plan.feeds) {
    if (auto error = check_feed(feed, plan, slots_, totals, plan_)) {
      result.outcomes.push_back({feed.id, feed.plan_epoch, *std::move(error)});
      continue;
    }
    if (auto error = drill_ == nullptr ? std::nullopt : drill_->refusal(feed)) {
      record(feed.slot).status = SlotRecord::Status::broken;
      result.outcomes.push_back({feed.id, feed.plan_epoch, *std::move(error)});
      continue;
    }
    record(feed.slot).in_step = true;
    (feed.form == Form::prefill ? totals.prefill_rows : totals.decode_rows) +=
        static_cast<std::int32_t>(feed.known.size());
    totals.logits_rows += feed.logits.count;
    accepted_.push_back(&feed);
    accepted_index_.push_back(result.outcomes.size());
    result.outcomes.push_back({feed.id, feed.plan_epoch, FeedDone{}});
  }
  for (const Feed* feed : accepted_) record(feed->slot).in_step = false;
}

gpu::Status ModelRunner::run(const StepPlan& plan) {
  if (drill_ != nullptr) RETURN_IF_ERROR(drill_->before_step(*stream_, *ops_));
  RETURN_IF_ERROR(reset(plan.resets));
  memory_.step.rewind({});
  gpu::Status ran = accepted_.empty() ? gpu::Status(gpu::Done{}) : run_feeds();
  RETURN_IF_ERROR(std::move(ran));
  return stream_->synchronize();
}

gpu::Status ModelRunner::reset(const std::vector<StateSlot>& resets) {
  for (const StateSlot slot : resets) {
    if (!has_slot(slot)) continue;
    RETURN_IF_ERROR(reset_state(*stream_, decoder_.state_of(slot)));
    RETURN_IF_ERROR(stream_->fill_zero(reinterpret_cast<std::byte*>(memory_.penalties.counted.base + slot),
                                       gpu::bytes_of<std::int32_t>(Elements{1}), "penalty counts"));
  }
  return gpu::Done{};
}

gpu::Status ModelRunner::run_feeds() {
  auto buffers = take_step_buffers(memory_.step, config_, plan_);
  if (!buffers.ok()) return std::move(buffers).error();
  RETURN_IF_ERROR(batch_.upload(*stream_, buffers->staging, memory_.ids, memory_.page_table));
  const StepContext context{*stream_,
                            *ops_,
                            memory_.step,
                            plan_.activation,
                            Rows{plan_.max_step_rows},
                            {},
                            memory_.ids,
                            {memory_.page_table, plan_.block_size},
                            plan_.max_seq_len,
                            probe_};
  RETURN_IF_ERROR(decoder_.forward(context, batch_.forms(), buffers->hidden, buffers->logits));

  const Rows rows{batch_.totals().logits_rows};
  sampled_.resize(static_cast<std::size_t>(rows.n));
  if (rows.n == 0) return gpu::Done{};
  if (drill_ != nullptr) RETURN_IF_ERROR(poison(buffers->logits));
  kernels::SampleArgs args;
  args.out = {buffers->sampled.base, Elements{rows.n}};
  args.ids = memory_.ids;
  args.logits = gpu::typed<float>(buffers->logits.first_rows(rows));
  args.scratch = gpu::typed<float>(buffers->sample_scratch.first_rows(rows));
  args.params = batch_.sampling();
  args.biases = batch_.biases();
  args.bans = batch_.bans();
  args.counts = memory_.penalties;
  RETURN_IF_ERROR(ops_->sample(*stream_, args));
  RETURN_IF_ERROR(batch_.rewrite_known_ids(*stream_, memory_.ids));
  return stream_->copy_to_host(sampled_.data(), reinterpret_cast<const std::byte*>(args.out.base),
                               gpu::bytes_of<kernels::SampledRow>(Elements{rows.n}), "sampled rows");
}

/// Of the feeds that the drill names.
gpu::Status ModelRunner::poison(const gpu::Matrix& logits) {
  for (std::size_t i = 0; i < accepted_.size(); ++i) {
    const Feed& feed = *accepted_[i];
    if (feed.logits.count == 0 || !drill_->poisons(feed)) continue;
    const std::vector<float> row(static_cast<std::size_t>(logits.cols.n),
                                 std::numeric_limits<float>::quiet_NaN());
    const auto to = gpu::typed<float>(logits);
    for (std::int32_t r = 0; r < feed.logits.count; ++r) {
      auto* const base = to.row(Rows{batch_.first_logits_row(i) + r});
      RETURN_IF_ERROR(stream_->copy_to_device(reinterpret_cast<std::byte*>(base), row.data(),
                                              gpu::bytes_of<float>(logits.cols), "injected NaN"));
    }
  }
  return gpu::Done{};
}

/// The device has done its work: counts, pages and samples become true.
void ModelRunner::commit(StepResult& result) {
  for (std::size_t i = 0; i < accepted_.size(); ++i) {
    const Feed& feed = *accepted_[i];
    SlotRecord& slot = record(feed.slot);
    slot.fed += static_cast<Position>(feed.known.size());
    slot.pages.insert(slot.pages.end(), feed.new_pages.begin(), feed.new_pages.end());
    auto& outcome = result.outcomes[accepted_index_[i]];
    const std::int32_t first_row = batch_.first_logits_row(i);
    if (auto problem = problem_of(i, first_row)) {
      slot.status = SlotRecord::Status::broken;
      const bool of_somebody = result.number != kStartupStep && result.number != kIdleCanaryStep;
      outcome.done = StepError{(of_somebody ? "step " + std::to_string(result.number) + ", sequence " +
                                                  std::to_string(feed.id) + ": "
                                            : std::string()) +
                               *problem};
    } else {
      outcome.done = read_sampled(feed, first_row);
    }
  }
}

void ModelRunner::end_rows(StepStats& stats) {
  if (!row_store_) return;
  row_store_->finish();
  const RowCounts counts = row_store_->counts();
  stats.ple_hits = counts.hits;
  stats.ple_misses = counts.misses;
  stats.ple_waited = counts.waited;
  stats.ple_pinned = counts.pinned;
}

/// What happened to one feed of a step that ran: its slot has been written with what must not be believed.
std::optional<std::string> ModelRunner::problem_of(std::size_t accepted, std::int32_t first_row) const {
  if (row_store_) {
    if (auto unread = row_store_->failure_of(accepted)) return unread;
  }
  for (std::int32_t r = 0; r < accepted_[accepted]->logits.count; ++r)
    if (sampled_[static_cast<std::size_t>(first_row + r)].finite == 0) return "logits are not finite";
  return std::nullopt;
}

FeedDone ModelRunner::read_sampled(const Feed& feed, std::int32_t first_row) const {
  FeedDone done;
  done.rows = static_cast<std::int32_t>(feed.known.size());
  done.sampled.resize(static_cast<std::size_t>(feed.logits.count));
  for (std::size_t r = 0; r < done.sampled.size(); ++r) {
    const kernels::SampledRow& row = sampled_[static_cast<std::size_t>(first_row) + r];
    SampledToken& token = done.sampled[r];
    token.token = row.token;
    token.logprob = row.logprob;
    for (std::size_t t = 0; t < static_cast<std::size_t>(row.num_top); ++t)
      token.top.push_back({row.top_tokens[t], row.top_logprobs[t]});
  }
  return done;
}

LoadError load_error(const gpu::DeviceError& error) { return {{error.what}}; }

}  // namespace

Result<std::unique_ptr<Runner>, LoadError> Runner::create(std::shared_ptr<gpu::Device> device,
                                                          std::unique_ptr<gpu::Stream> stream,
                                                          std::unique_ptr<kernels::Ops> ops,
                                                          ModelConfig config, ModelWeights weights,
                                                          const ServePlan& plan) {
  auto memory = allocate_model_memory(*device, config, plan);
  if (!memory.ok()) return load_error(memory.error());
  if (auto zeroed = clear_penalty_counts(*stream, *memory); !zeroed.ok()) return load_error(zeroed.error());
  auto constants = upload_constants(*device, *stream, config, weights, memory->layers);
  if (!constants.ok()) return load_error(constants.error());
  std::unique_ptr<PleStore> row_store;
  if (plan.ple_tables == PleTables::stored) {
    auto opened = PleStore::open(config, weights, plan);
    if (!opened.ok()) return std::move(opened).error();
    row_store = *std::move(opened);
    for (std::size_t i = 0; i < memory->layers.size(); ++i)
      memory->layers[i].ple.stored_rows = row_store->rows_of(static_cast<LayerIndex>(i));
  }
  return std::unique_ptr<Runner>(new ModelRunner(
      std::move(device), std::move(stream), std::move(ops), std::move(config), std::move(weights), plan,
      *std::move(memory), *std::move(constants), std::move(row_store)));
}

}  // namespace model
