// Step times of a model on the CPU backend, straight on the Runner: no actors, no HTTP. Prints one Markdown
// row per case.
//   step_bench [MODEL] [--threads N] [--dummy] [--seconds S] [--context N] [--only prefill|1|8|16]
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "model/checkpoint/loader.h"
#include "model/runner/runner.h"

namespace {

using Clock = std::chrono::steady_clock;

/// Seconds of one step; of a prompt, the sum over its steps.
struct StepTime {
  double wall = 0.0;
  double cpu = 0.0;  // of all threads
};

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Options {
  std::string model = ATLAS_MODELS "/atlas-mini";
  int threads = static_cast<int>(std::thread::hardware_concurrency());
  bool dummy = false;
  double seconds = 3.0;
  std::int32_t context = 128;
  std::string only;  // the one case to run: prefill, or a batch size
};

[[noreturn]] void fail(const std::vector<std::string>& problems) {
  for (const auto& problem : problems) std::fprintf(stderr, "step_bench: %s\n", problem.c_str());
  std::exit(1);
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto value = [&]() -> std::string {
      return i + 1 < argc ? argv[++i] : (fail({argument + " needs a value"}), "");
    };
    if (argument == "--threads")
      options.threads = std::stoi(value());
    else if (argument == "--dummy")
      options.dummy = true;
    else if (argument == "--seconds")
      options.seconds = std::stod(value());
    else if (argument == "--context")
      options.context = std::stoi(value());
    else if (argument == "--only")
      options.only = value();
    else
      options.model = argument;
  }
  return options;
}

std::vector<model::TokenId> some_tokens(std::int32_t n, std::int32_t vocab) {
  std::vector<model::TokenId> ids(static_cast<std::size_t>(n));
  for (std::int32_t i = 0; i < n; ++i)
    ids[static_cast<std::size_t>(i)] =
        static_cast<model::TokenId>((std::int64_t{i} * 7919 + 11) % (vocab / 2));
  return ids;
}

/// Drives `batch` sequences on slots 0 … batch-1, each with pages of its own.
class Driver {
 public:
  Driver(model::Runner& runner, const model::ServePlan& plan)
      : runner_(runner), plan_(plan), sampling_(std::make_shared<model::SamplingParams>()) {
    sampling_->temperature = 0.0F;
  }

  void reset(std::int32_t batch) {
    fed_.assign(static_cast<std::size_t>(batch), 0);
    pages_.assign(static_cast<std::size_t>(batch), 0);
    resets_.resize(static_cast<std::size_t>(batch));
    std::iota(resets_.begin(), resets_.end(), 0);
  }
  StepTime prefill(std::int32_t slot, const std::vector<model::TokenId>& ids) {
    StepTime total;
    for (std::size_t at = 0; at < ids.size(); at += static_cast<std::size_t>(plan_.chunk_width)) {
      const auto end = std::min(ids.size(), at + static_cast<std::size_t>(plan_.chunk_width));
      model::StepPlan plan = next_plan();
      plan.feeds.push_back(feed(
          slot, model::Form::prefill,
          {ids.begin() + static_cast<std::ptrdiff_t>(at), ids.begin() + static_cast<std::ptrdiff_t>(end)}));
      if (end == ids.size()) with_logits(plan.feeds.back());
      const StepTime step = run(plan);
      total.wall += step.wall;
      total.cpu += step.cpu;
    }
    return total;
  }
  StepTime decode() {
    model::StepPlan plan = next_plan();
    for (std::size_t slot = 0; slot < fed_.size(); ++slot) {
      plan.feeds.push_back(feed(static_cast<std::int32_t>(slot), model::Form::decode,
                                {static_cast<model::TokenId>(17 + slot)}));
      with_logits(plan.feeds.back());
    }
    return run(plan);
  }

 private:
  model::StepPlan next_plan() {
    model::StepPlan plan;
    plan.number = ++number_;
    plan.resets = std::exchange(resets_, {});
    return plan;
  }
  model::Feed feed(std::int32_t slot, model::Form form, std::vector<model::TokenId> ids) {
    model::Feed feed;
    feed.id = static_cast<model::SequenceId>(slot) + 1;
    feed.slot = slot;
    feed.form = form;
    auto& fed = fed_[static_cast<std::size_t>(slot)];
    feed.first = fed;
    fed += static_cast<std::int32_t>(ids.size());
    feed.known = std::move(ids);
    auto& pages = pages_[static_cast<std::size_t>(slot)];
    while (pages * plan_.block_size < fed)
      feed.new_pages.push_back(slot * plan_.pages_per_sequence + pages++);
    return feed;
  }
  void with_logits(model::Feed& feed) {
    feed.logits = {static_cast<std::int32_t>(feed.known.size()) - 1, 1};
    feed.sampling = sampling_;
    feed.prompt_tokens = feed.first;
  }
  StepTime run(const model::StepPlan& plan) {
    const double cpu_begin = cpu_seconds();
    const auto begin = Clock::now();
    auto result = runner_.step(plan);
    const StepTime time{std::chrono::duration<double>(Clock::now() - begin).count(),
                        cpu_seconds() - cpu_begin};
    if (!result.ok()) fail({result.error().what});
    for (const auto& outcome : result->outcomes) {
      if (!outcome.done.ok()) fail({outcome.done.error().what});
    }
    return time;
  }

  model::Runner& runner_;
  const model::ServePlan& plan_;
  std::shared_ptr<model::SamplingParams> sampling_;
  std::vector<std::int32_t> fed_, pages_, resets_;
  model::StepNumber number_ = 0;
};

/// Decode steps before the sequences start again at the context that the row names.
constexpr int kDecodeSteps = 64;

/// One row. Where other work shares the machine, the fastest step and the processor time of all threads still
/// say what the code costs; the median wall time says what was seen.
void print_row(const std::string& name, std::int32_t tokens, std::vector<StepTime> times) {
  const auto by = [&](double StepTime::*member) {
    std::vector<double> sorted;
    for (const StepTime& time : times) sorted.push_back(1e3 * time.*member);
    std::sort(sorted.begin(), sorted.end());
    return sorted;
  };
  const auto wall = by(&StepTime::wall), cpu = by(&StepTime::cpu);
  std::printf("| %s | %.0f | %.3f | %.3f | %.3f | %.3f |\n", name.c_str(), 1e3 * tokens / wall.front(),
              wall.front(), wall[wall.size() / 2], cpu.front(), cpu[cpu.size() / 2]);
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  auto folder = model::open_model_folder(options.model);
  if (!folder.ok()) fail(folder.error().problems);
  std::shared_ptr<gpu::Device> device = gpu::make_host_device(options.threads);
  model::PlanOptions plan_options;
  plan_options.max_batch_size = 16;
  plan_options.max_seq_len = std::min(folder->config.max_positions, 4096);
  auto plan = model::derive_serve_plan(folder->config, plan_options, device->facts());
  if (!plan.ok()) fail(plan.error().problems);
  auto stream = device->create_stream();
  if (!stream.ok()) fail({stream.error().what});
  auto weights =
      model::load_weights(*folder, options.dummy ? model::LoadFormat::dummy : model::LoadFormat::automatic,
                          *device, **stream, {});
  if (!weights.ok()) fail(weights.error().problems);
  auto runner = model::Runner::create(device, std::move(*stream), kernels::make_cpu_ops(), folder->config,
                                      std::move(*weights), *plan);
  if (!runner.ok()) fail(runner.error().problems);

  Driver driver(**runner, *plan);
  std::printf(
      "| case | tokens/s (best) | ms (best) | ms (median) | CPU ms (best) | CPU ms (median) "
      "|\n|---|---|---|---|---|---|\n");
  if (options.only.empty() || options.only == "prefill") {
    const auto ids = some_tokens(512, folder->config.vocab_size);
    std::vector<StepTime> times;
    double total = 0.0;
    while (total < options.seconds || times.size() < 3) {
      driver.reset(1);
      times.push_back(driver.prefill(0, ids));
      total += times.back().wall;
    }
    print_row("prefill 512", 512, std::move(times));
  }
  for (const std::int32_t batch : {1, 8, 16}) {
    if (!options.only.empty() && options.only != std::to_string(batch)) continue;
    std::vector<StepTime> times;
    double total = 0.0;
    while (total < options.seconds || times.size() < 3) {
      driver.reset(batch);
      for (std::int32_t slot = 0; slot < batch; ++slot)
        driver.prefill(slot, some_tokens(options.context, folder->config.vocab_size));
      for (int i = 0; i < kDecodeSteps; ++i) {
        times.push_back(driver.decode());
        total += times.back().wall;
      }
    }
    print_row("decode b=" + std::to_string(batch) + ", context " + std::to_string(options.context), batch,
              std::move(times));
  }
  return 0;
}
