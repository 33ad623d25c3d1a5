// Step times of a model, straight on the Runner: no actors, no HTTP. Prints one Markdown row per case.
//   step_bench [MODEL] [--backend cpu|cuda] [--module FILE] [--dummy] [--layers A,B]
//              [--batches N,…] [--contexts N,…] [--prefills N,…] [--steps N] [--seconds S] [--threads N]
#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench/step/step_driver.h"
#include "kernels/backend_module.h"
#include "model/checkpoint/loader.h"

namespace {

using bench::Driver;
using bench::fail;
using bench::StepTime;

struct Options {
  std::string model = ATLAS_MODELS "/atlas-mini";
  std::string backend = "cpu";
  std::string module;  // default: lib/atlas_cuda.so beside the binary
  int threads = static_cast<int>(std::thread::hardware_concurrency());
  bool dummy = false;
  double seconds = 3.0;  // a case, and at least three runs of it
  int steps = 64;        // decode steps before the sequences start again at the context that the row names
  std::vector<std::int32_t> layers;  // of the model's first ones; two of them: the whole is extrapolated
  std::vector<std::int32_t> batches = {1, 8, 16}, contexts = {128}, prefills = {512};
};

std::vector<std::int32_t> list_of(const std::string& text) {
  std::vector<std::int32_t> values;
  for (std::size_t at = 0; at < text.size(); at = std::min(text.find(',', at), text.size() - 1) + 1)
    values.push_back(std::stoi(text.substr(at)));
  return values;
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
    else if (argument == "--backend")
      options.backend = value();
    else if (argument == "--module")
      options.module = value();
    else if (argument == "--dummy")
      options.dummy = true;
    else if (argument == "--seconds")
      options.seconds = std::stod(value());
    else if (argument == "--steps")
      options.steps = std::stoi(value());
    else if (argument == "--layers")
      options.layers = list_of(value());
    else if (argument == "--batches")
      options.batches = list_of(value());
    else if (argument == "--contexts")
      options.contexts = list_of(value());
    else if (argument == "--prefills")
      options.prefills = list_of(value());
    else
      options.model = argument;
  }
  return options;
}

std::int32_t largest(const std::vector<std::int32_t>& values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

/// Where the model runs.
struct Machine {
  std::shared_ptr<gpu::Device> device;
  const kernels::BackendModule* module = nullptr;  // null: the CPU

  std::unique_ptr<kernels::Ops> make_ops() const {
    if (module == nullptr) return kernels::make_cpu_ops();
    auto ops = module->make_ops(*device,
                                [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); });
    if (!ops.ok()) fail({ops.error().what});
    return *std::move(ops);
  }
  std::unique_ptr<gpu::Stream> make_stream() const {
    auto stream = device->create_stream();
    if (!stream.ok()) fail({stream.error().what});
    return *std::move(stream);
  }
};

Machine machine_of(const Options& options) {
  if (options.backend == "cpu") return {gpu::make_host_device(options.threads), nullptr};
  const auto module = kernels::load_backend_module(
      options.module.empty() ? kernels::cuda_module_path() : std::filesystem::path(options.module));
  if (!module.ok()) fail({module.error().why});
  auto device = (*module)->make_device();
  if (!device.ok()) fail({device.error().what});
  return {*std::move(device), *module};
}

/// The times of one number of layers, by case.
using Times = std::vector<std::pair<std::string, std::vector<StepTime>>>;

/// What a case does in `seconds`, and at least three times.
std::vector<StepTime> repeated(double seconds, const std::function<std::vector<StepTime>()>& once) {
  std::vector<StepTime> times;
  double total = 0.0;
  while (total < seconds || times.size() < 3) {
    for (const StepTime& time : once()) {
      times.push_back(time);
      total += time.wall;
    }
  }
  return times;
}

/// Prompts alone; then, context by context, all sequences are filled once and decode in smaller and smaller
/// batches.
Times measure(const Options& options, Driver& driver, std::int32_t vocab,
              std::map<std::string, std::int32_t>& tokens) {
  Times all;
  for (const std::int32_t length : options.prefills) {
    const auto ids = bench::some_tokens(length, vocab);
    all.emplace_back("prefill " + std::to_string(length), repeated(options.seconds, [&] {
                       driver.reset(1);
                       return std::vector<StepTime>{driver.prefill(0, ids)};
                     }));
    tokens[all.back().first] = length;
  }
  std::vector<std::int32_t> batches = options.batches;
  std::sort(batches.rbegin(), batches.rend());
  for (const std::int32_t context : options.contexts) {
    const auto ids = bench::some_tokens(context, vocab);
    driver.reset(largest(batches));
    for (std::int32_t slot = 0; slot < largest(batches); ++slot) (void)driver.prefill(slot, ids);
    for (const std::int32_t batch : batches) {
      std::vector<StepTime> times;
      for (int i = 0; i < options.steps; ++i) times.push_back(driver.decode(batch));
      all.emplace_back("decode b=" + std::to_string(batch) + ", context " + std::to_string(context), times);
      tokens[all.back().first] = batch;
    }
  }
  return all;
}

/// Milliseconds of a case, ascending.
std::vector<double> sorted_ms(const std::vector<StepTime>& times, double StepTime::*member) {
  std::vector<double> sorted;
  for (const StepTime& time : times) sorted.push_back(1e3 * time.*member);
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}
double median(const std::vector<double>& sorted) { return sorted[sorted.size() / 2]; }

/// Where other work shares the machine, the fastest step and the processor time of all threads still say what
/// the code costs; the median wall time says what was seen.
void print_times(const Times& all, const std::map<std::string, std::int32_t>& tokens) {
  std::printf(
      "| case | tokens/s (best) | ms (best) | ms (median) | CPU ms (best) | CPU ms (median) |\n"
      "|---|---|---|---|---|---|\n");
  for (const auto& [name, times] : all) {
    const auto wall = sorted_ms(times, &StepTime::wall), cpu = sorted_ms(times, &StepTime::cpu);
    std::printf("| %s | %.0f | %.3f | %.3f | %.3f | %.3f |\n", name.c_str(),
                1e3 * tokens.at(name) / wall.front(), wall.front(), median(wall), cpu.front(), median(cpu));
  }
}

/// Medians of the first and the last number of layers, and the line through both at the model's own.
void print_extrapolated(const Options& options, const std::vector<Times>& runs,
                        const std::map<std::string, std::int32_t>& tokens, std::int32_t whole) {
  const std::int32_t few = options.layers.front(), more = options.layers.back();
  std::printf(
      "| case | ms, %d layers | ms, %d layers | ms a layer | ms, %d layers (extrapolated) | tokens/s |\n"
      "|---|---:|---:|---:|---:|---:|\n",
      few, more, whole);
  for (std::size_t i = 0; i < runs.front().size(); ++i) {
    const auto& [name, times] = runs.front()[i];
    const double of_few = median(sorted_ms(times, &StepTime::wall));
    const double of_more = median(sorted_ms(runs.back()[i].second, &StepTime::wall));
    const double layer = (of_more - of_few) / (more - few);
    const double of_whole = of_few + layer * (whole - few);
    std::printf("| %s | %.3f | %.3f | %.3f | %.2f | %.0f |\n", name.c_str(), of_few, of_more, layer, of_whole,
                1e3 * tokens.at(name) / of_whole);
  }
}

/// The first `layers` layers of loaded weights, which stay the owner.
model::ModelWeights first_layers(const model::ModelWeights& all, std::size_t layers) {
  model::ModelWeights some;
  some.embedding = all.embedding;
  some.head = all.head;
  some.mixer = all.mixer;
  some.final_norm = all.final_norm;
  some.layers.assign(all.layers.begin(), all.layers.begin() + static_cast<std::ptrdiff_t>(layers));
  some.mtp = all.mtp;
  return some;
}

}  // namespace

int main(int argc, char** argv) {
  Options options = parse(argc, argv);
  auto folder = model::open_model_folder(options.model);
  if (!folder.ok()) fail(folder.error().problems);
  const auto whole = static_cast<std::int32_t>(folder->config.layers.size());
  if (options.layers.empty()) options.layers = {whole};
  for (const std::int32_t layers : options.layers) {
    if (layers < 1 || layers > whole)
      fail({"--layers " + std::to_string(layers) + ": the model has " + std::to_string(whole)});
  }
  if (largest(options.layers) < whole && !options.dummy) fail({"--layers needs --dummy"});
  folder->config.layers.resize(static_cast<std::size_t>(largest(options.layers)));

  const Machine machine = machine_of(options);
  std::printf("%s; %s\n\n", machine.device->facts().name.c_str(), machine.device->facts().libraries.c_str());
  const auto format = options.dummy ? model::LoadFormat::dummy : model::LoadFormat::automatic;
  model::PlanOptions plan_options;
  plan_options.max_batch_size = std::max(1, largest(options.batches));
  plan_options.max_seq_len =
      std::min(folder->config.max_positions,
               std::max(largest(options.prefills),
                        largest(options.contexts) +
                            options.steps * static_cast<std::int32_t>(options.batches.size())));
  const auto plan_of = [&](const model::ModelConfig& config) {
    auto plan = model::derive_serve_plan(config, plan_options, machine.device->facts());
    if (!plan.ok()) fail(plan.error().problems);
    return *std::move(plan);
  };
  const auto loading = machine.make_stream();
  auto weights = model::load_weights(*folder, format, *machine.device, *loading, {},
                                     plan_of(folder->config).weight_matrices);
  if (!weights.ok()) fail(weights.error().problems);
  plan_options.weight_bytes = gpu::Bytes{0};  // they lie on the device already, and its free memory says so

  std::vector<Times> runs;
  std::map<std::string, std::int32_t> tokens;
  for (const std::int32_t layers : options.layers) {
    model::ModelConfig config = folder->config;
    config.layers.resize(static_cast<std::size_t>(layers));
    const model::ServePlan plan = plan_of(config);
    auto runner = model::Runner::create(machine.device, machine.make_stream(), machine.make_ops(), config,
                                        first_layers(*weights, static_cast<std::size_t>(layers)), plan);
    if (!runner.ok()) fail(runner.error().problems);
    Driver driver(**runner, plan);
    runs.push_back(measure(options, driver, config.vocab_size, tokens));
    std::printf("%d of %d layers, activations %s\n\n", layers, whole,
                std::string(to_string(plan.activation)).c_str());
    print_times(runs.back(), tokens);
    std::printf("\n");
    std::fflush(stdout);
  }
  if (runs.size() > 1) print_extrapolated(options, runs, tokens, whole);
  return 0;
}
