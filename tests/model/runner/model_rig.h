#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/checkpoint/loader.h"
#include "model/checkpoint/widen.h"
#include "model/runner/runner.h"
#include "tests/fixture_path.h"

namespace model::testing {

/// Hands out the memory of another device filled with NaN (and ids and page numbers of −1), as fresh device
/// memory may be.
class PoisonedDevice final : public gpu::Device {
 public:
  explicit PoisonedDevice(std::shared_ptr<gpu::Device> inner)
      : inner_(std::move(inner)), stream_(*inner_->create_stream()), poison_(1 << 24, std::byte{0xFF}) {}
  gpu::DeviceFacts facts() const override { return inner_->facts(); }
  gpu::Result<gpu::Buffer, gpu::DeviceError> allocate(gpu::Bytes size, const char* what) override {
    auto buffer = inner_->allocate(size, what);
    if (!buffer.ok()) return buffer;
    for (std::int64_t at = 0; at < size.n; at += std::ssize(poison_)) {
      const gpu::Bytes part{std::min(size.n - at, std::int64_t{std::ssize(poison_)})};
      RETURN_IF_ERROR(stream_->copy_to_device(buffer->base() + at, poison_.data(), part, "poison"));
    }
    RETURN_IF_ERROR(stream_->synchronize());
    return buffer;
  }
  gpu::Result<std::unique_ptr<gpu::Stream>, gpu::DeviceError> create_stream() override {
    return inner_->create_stream();
  }

 private:
  void free(std::byte*, gpu::Bytes) noexcept override {}  // buffers are the inner device's
  std::shared_ptr<gpu::Device> inner_;
  std::unique_ptr<gpu::Stream> stream_;
  std::vector<std::byte> poison_;
};

/// A stream that fails one operation: the `countdown`-th from now.
class FailingStream final : public gpu::HostStream {
 public:
  explicit FailingStream(std::unique_ptr<gpu::Stream> inner) : inner_(std::move(inner)) {}

  void fail_after(int operations, gpu::DeviceError::Kind kind) {
    countdown_ = operations;
    kind_ = kind;
  }
  int operations() const { return operations_; }

  gpu::Status synchronize() override { return inner_->synchronize(); }
  gpu::Status fill_zero(std::byte* base, gpu::Bytes size, const char* what) override {
    RETURN_IF_ERROR(count(what));
    return inner_->fill_zero(base, size, what);
  }
  gpu::Status copy(std::byte* to, const std::byte* from, gpu::Bytes size, const char* what) override {
    RETURN_IF_ERROR(count(what));
    return inner_->copy(to, from, size, what);
  }
  gpu::Status copy_to_device(std::byte* to, const void* from, gpu::Bytes size, const char* what) override {
    RETURN_IF_ERROR(count(what));
    return inner_->copy_to_device(to, from, size, what);
  }
  gpu::Status copy_to_host(void* to, const std::byte* from, gpu::Bytes size, const char* what) override {
    return inner_->copy_to_host(to, from, size, what);
  }
  std::uint64_t progress() const override { return inner_->progress(); }
  void note_progress() override { inner_->note_progress(); }
  gpu::Status parallel(const char* what, std::int64_t num_tiles,
                       const std::function<void(std::int64_t)>& tile) override {
    RETURN_IF_ERROR(count(what));
    return static_cast<gpu::HostStream&>(*inner_).parallel(what, num_tiles, tile);
  }

 private:
  gpu::Status count(const char* what) {
    ++operations_;
    if (countdown_ <= 0 || --countdown_ > 0) return gpu::Done{};
    return gpu::DeviceError{kind_, std::string("injected at ") + what};
  }
  std::unique_ptr<gpu::Stream> inner_;
  int countdown_ = 0;
  int operations_ = 0;
  gpu::DeviceError::Kind kind_ = gpu::DeviceError::Kind::refused;
};

/// What a rig computes with.
struct RigBackend {
  std::shared_ptr<gpu::Device> device;
  std::unique_ptr<gpu::Stream> stream;
  std::unique_ptr<kernels::Ops> ops;
};

struct RigOptions {
  std::int32_t max_batch_size = 8;
  std::int32_t max_prefill_tokens = 256;
  std::int32_t max_seq_len = 512;
  int num_workers = 2;
  bool poisoned = false;
  LoadFormat format = LoadFormat::automatic;
  std::function<RigBackend()> backend;  ///< none: the host, with a stream that can be made to fail
  DTypeOption dtype = DTypeOption::automatic;
  PleResident ple_resident = PleResident::automatic;
  std::optional<std::int64_t> ple_cache_slots;  ///< in place of the plan's, floor or no floor
};

/// A runner over a checkpoint, and feeds for it. Pages are granted in a scattered order, so that a row in the
/// wrong page is seen.
class ModelRig {
 public:
  ModelRig(const std::string& folder, const RigOptions& options) {
    auto opened = open_model_folder(folder);
    require(opened);
    config = opened->config;
    RigBackend backend = options.backend ? options.backend() : on_host(options.num_workers);
    runner_stream = backend.stream.get();

    PlanOptions plan_options;
    plan_options.dtype = options.dtype;
    plan_options.max_seq_len = options.max_seq_len;
    plan_options.max_batch_size = options.max_batch_size;
    plan_options.max_prefill_tokens = options.max_prefill_tokens;
    plan_options.ple_resident = options.ple_resident;
    const gpu::DeviceFacts facts = backend.device->facts();
    plan_options.ple_table =
        ple_table_facts(*opened, options.format, weight_matrix_type(options.dtype, facts.backend));
    auto derived = derive_serve_plan(config, plan_options, facts);
    require(derived);
    plan = *derived;
    if (options.ple_cache_slots) plan.ple_cache_slots = *options.ple_cache_slots;
    auto weights = load_weights(*opened, options.format, *backend.device, *runner_stream, {},
                                plan.weight_matrices, plan.ple_tables);
    require(weights);
    if (options.poisoned) backend.device = std::make_shared<PoisonedDevice>(backend.device);
    auto made = Runner::create(backend.device, std::move(backend.stream), std::move(backend.ops), config,
                               *std::move(weights), plan);
    require(made);
    runner = *std::move(made);
    for (PageId page = 0; page < plan.num_pages; ++page) free_pages_.push_back(page);
    for (std::size_t i = 0; i + 3 < free_pages_.size(); i += 3) std::swap(free_pages_[i], free_pages_[i + 2]);
    pages_.resize(static_cast<std::size_t>(plan.num_state_slots));
  }

  /// A feed of [first, first + known.size()), with the pages that it needs; every row from `logits_from` on
  /// is sampled greedily.
  Feed feed(StateSlot slot, Form form, Position first, std::vector<TokenId> known, std::int32_t logits_from) {
    Feed made;
    made.id = static_cast<SequenceId>(slot) + 1;
    made.slot = slot;
    made.form = form;
    made.first = first;
    made.logits = {logits_from, static_cast<std::int32_t>(known.size()) - logits_from};
    auto greedy = std::make_shared<SamplingParams>();
    greedy->temperature = 0.0F;
    made.sampling = greedy;
    auto& held = pages_[static_cast<std::size_t>(slot)];
    while (std::ssize(held) * plan.block_size < first + std::ssize(known)) {
      held.push_back(free_pages_.back());
      free_pages_.pop_back();
      made.new_pages.push_back(held.back());
    }
    made.known = std::move(known);
    return made;
  }
  /// Names the slot for reset in a plan, and takes its pages back.
  StateSlot begin(StateSlot slot) {
    auto& held = pages_[static_cast<std::size_t>(slot)];
    free_pages_.insert(free_pages_.end(), held.begin(), held.end());
    held.clear();
    return slot;
  }

  StepResult step(std::vector<Feed> feeds, std::vector<StateSlot> resets = {}) {
    StepPlan step_plan;
    step_plan.number = ++step_number_;
    step_plan.feeds = std::move(feeds);
    step_plan.resets = std::move(resets);
    auto result = runner->step(step_plan);
    EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().what);
    return result.ok() ? *std::move(result) : StepResult{};
  }
  /// One feed that must succeed; the ids sampled.
  std::vector<TokenId> run(Feed one, std::vector<StateSlot> resets = {}) {
    const StepResult result = step({std::move(one)}, std::move(resets));
    return sampled(result, 0);
  }
  static std::vector<TokenId> sampled(const StepResult& result, std::size_t feed) {
    const auto& done = result.outcomes.at(feed).done;
    EXPECT_TRUE(done.ok()) << (done.ok() ? "" : done.error().what);
    std::vector<TokenId> tokens;
    if (done.ok())
      for (const SampledToken& token : done->sampled) tokens.push_back(token.token);
    return tokens;
  }

  /// Prefills `ids` in chunks of `width` and decodes greedily: `count` tokens.
  std::vector<TokenId> generate(StateSlot slot, const std::vector<TokenId>& ids, std::size_t count,
                                std::int32_t width = 0) {
    const std::int32_t chunk = width > 0 ? width : plan.chunk_width;
    std::vector<TokenId> tokens;
    for (Position at = 0; at < std::ssize(ids); at += chunk) {
      const auto end = std::min<std::ptrdiff_t>(std::ssize(ids), at + chunk);
      std::vector<TokenId> part(ids.begin() + at, ids.begin() + end);
      const auto rows = static_cast<std::int32_t>(part.size());
      const bool last = end == std::ssize(ids);
      std::vector<StateSlot> resets;
      if (at == 0) resets.push_back(begin(slot));
      tokens = run(feed(slot, Form::prefill, at, std::move(part), last ? rows - 1 : rows), std::move(resets));
    }
    auto fed = static_cast<Position>(ids.size());
    while (!tokens.empty() && tokens.size() < count) {
      const auto next = run(feed(slot, Form::decode, fed++, {tokens.back()}, 0));
      if (next.size() != 1) return tokens;
      tokens.push_back(next[0]);
    }
    return tokens;
  }

  std::unique_ptr<Runner> runner;
  gpu::Stream* runner_stream = nullptr;
  FailingStream* stream = nullptr;  ///< the same, on the host
  ModelConfig config;
  ServePlan plan;

 private:
  RigBackend on_host(int num_workers) {
    RigBackend host;
    host.device = gpu::make_host_device(num_workers);
    auto failing = std::make_unique<FailingStream>(*host.device->create_stream());
    stream = failing.get();
    host.stream = std::move(failing);
    host.ops = kernels::make_cpu_ops();
    return host;
  }
  template <class T>
  static void require(const Result<T, LoadError>& result) {
    if (result.ok()) return;
    for (const std::string& problem : result.error().problems) ADD_FAILURE() << problem;
    std::abort();  // nothing of this test can run
  }
  std::vector<PageId> free_pages_;
  std::vector<std::vector<PageId>> pages_;
  StepNumber step_number_ = 0;
};

/// Keeps what the forward pass shows, by name, as f32 where it is bf16; a later value of the same name is
/// appended. Waits for the device at each.
class Recorder final : public ForwardProbe {
 public:
  explicit Recorder(ModelRig& rig) : stream_(*rig.runner_stream) {}
  void see(std::string_view name, gpu::ConstMatrix value, const kernels::RowBatch&) override {
    if (value.rows.n == 0) return;
    const gpu::Elements extent = gpu::Rows{value.rows.n - 1} * value.pitch + value.cols;
    std::vector<std::byte> bytes(static_cast<std::size_t>(gpu::bytes_of(value.dtype, extent).n));
    const auto copied =
        stream_.copy_to_host(bytes.data(), value.base, gpu::Bytes{std::ssize(bytes)}, "probe");
    const auto done = copied.ok() ? stream_.synchronize() : copied;
    ASSERT_TRUE(done.ok()) << name << ": " << done.error().what;
    const auto cols = static_cast<std::size_t>(value.cols.n);
    for (std::int64_t r = 0; r < value.rows.n; ++r) {
      const std::byte* const row = bytes.data() + gpu::bytes_of(value.dtype, gpu::Rows{r} * value.pitch).n;
      if (value.dtype == gpu::DType::i32) {
        append(ints[std::string(name)], row, cols);
      } else if (value.dtype == gpu::DType::i64) {
        append(longs[std::string(name)], row, cols);
      } else {
        const std::vector<float> widened = widen(row, value.dtype, value.cols.n);
        auto& values = floats[std::string(name)];
        values.insert(values.end(), widened.begin(), widened.end());
      }
    }
  }
  void clear() {
    floats.clear();
    ints.clear();
    longs.clear();
  }
  std::map<std::string, std::vector<float>> floats;
  std::map<std::string, std::vector<std::int32_t>> ints;
  std::map<std::string, std::vector<std::int64_t>> longs;

 private:
  template <class T>
  static void append(std::vector<T>& values, const std::byte* row, std::size_t cols) {
    const std::size_t old = values.size();
    values.resize(old + cols);
    std::memcpy(values.data() + old, row, cols * sizeof(T));
  }
  gpu::Stream& stream_;
};

inline std::string fixture(const std::string& name) { return tests::fixture_path(name); }

}  // namespace model::testing
