// What it costs that an n-gram table stays in its files: a model whose table has rows of the real one, decode
// and prefill with random tokens, the table resident and read row by row. Prints one Markdown row per case.
//   rows_bench FOLDER [--table-mib N] [--cache-share N] [--prompt N] [--batch N] [--steps N] [--rounds N]
//   [--threads N]
// FOLDER is made, takes a little more than --table-mib, and is removed at the end.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "bench/rows/rows_model.h"
#include "bench/step/step_driver.h"
#include "kernels/ops.h"
#include "model/checkpoint/loader.h"

namespace {

using bench::Driver;
using bench::fail;
using bench::StepTime;

struct Options {
  std::filesystem::path folder;
  std::int64_t table_mib = 4096;
  std::int64_t cache_share = 100;  // the cache holds the table's rows by this
  std::int32_t prompt = 2048, batch = 8, steps = 128, rounds = 5;
  int threads = static_cast<int>(std::thread::hardware_concurrency());
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto number = [&] {
      if (++i >= argc) fail({argument + " needs a value"});
      return std::stoi(argv[i]);
    };
    if (argument == "--table-mib")
      options.table_mib = number();
    else if (argument == "--cache-share")
      options.cache_share = number();
    else if (argument == "--prompt")
      options.prompt = number();
    else if (argument == "--batch")
      options.batch = number();
    else if (argument == "--steps")
      options.steps = number();
    else if (argument == "--rounds")
      options.rounds = number();
    else if (argument == "--threads")
      options.threads = number();
    else
      options.folder = argument;
  }
  if (options.folder.empty()) fail({"rows_bench FOLDER: nothing is named"});
  if (std::filesystem::exists(options.folder)) fail({options.folder.string() + " is there already"});
  return options;
}

/// Nothing of the file is left in memory: what is not read directly comes from the disk as well.
void leave_the_page_cache(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0 || ::fsync(file) != 0 || ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) != 0)
    fail({path.string() + ": cannot be put out of the page cache"});
  ::close(file);
}

std::vector<model::TokenId> random_tokens(std::mt19937& random, std::int32_t count, std::int32_t vocab) {
  std::vector<model::TokenId> tokens(static_cast<std::size_t>(count));
  for (auto& token : tokens) token = std::uniform_int_distribution<model::TokenId>(0, vocab - 1)(random);
  return tokens;
}

/// A home of the table: on the device, or in the file.
struct Home {
  const char* name = "";
  std::unique_ptr<model::Runner> runner;
  model::ServePlan plan;
  std::unique_ptr<Driver> driver;
  std::vector<StepTime> cold, warm, decode;
};

void open_home(Home& home, const Options& options, const model::ModelFolder& folder,
               model::PleResident resident) {
  const std::shared_ptr<gpu::Device> device = gpu::make_host_device(options.threads);
  auto stream = device->create_stream();
  if (!stream.ok()) fail({stream.error().what});
  model::PlanOptions wanted;
  wanted.ple_resident = resident;
  wanted.ple_table = model::ple_table_facts(folder, model::LoadFormat::automatic, std::nullopt);
  if (!wanted.ple_table) fail({"the model's table cannot be read"});
  wanted.max_batch_size = options.batch;
  wanted.max_prefill_tokens = std::max(64, options.prompt);
  wanted.max_seq_len = std::max(options.prompt, 64 + options.steps) + 64;
  wanted.weight_bytes = model::checkpoint_bytes(folder);
  wanted.ple_cache_slots =
      wanted.ple_table->file_bytes.n / wanted.ple_table->row_bytes.n / options.cache_share;
  auto plan = model::derive_serve_plan(folder.config, wanted, device->facts());
  if (!plan.ok()) fail(plan.error().problems);
  home.plan = *plan;
  auto weights = model::load_weights(folder, model::LoadFormat::automatic, *device, **stream, {},
                                     plan->weight_matrices, plan->ple_tables);
  if (!weights.ok()) fail(weights.error().problems);
  auto runner = model::Runner::create(device, *std::move(stream), kernels::make_cpu_ops(), folder.config,
                                      *std::move(weights), *plan);
  if (!runner.ok()) fail(runner.error().problems);
  home.runner = *std::move(runner);
  home.name = resident == model::PleResident::never ? "in the file" : "resident";
  home.driver = std::make_unique<Driver>(*home.runner, home.plan);
  if (const std::string note = home.runner->row_store_note(); !note.empty())
    std::fprintf(stderr, "%s\n", note.c_str());
}

/// Both homes do the same, turn by turn: what else the machine does meets both.
void measure(std::span<Home> homes, const Options& options, std::int32_t vocab) {
  std::mt19937 random(7);
  for (std::int32_t round = 0; round < options.rounds; ++round) {
    const auto prompt = random_tokens(random, options.prompt, vocab);
    for (auto times : {&Home::cold, &Home::warm}) {
      for (Home& home : homes) {
        home.driver->reset(1);
        (home.*times).push_back(home.driver->prefill(0, prompt));
      }
    }
  }
  for (Home& home : homes) home.driver->reset(options.batch);
  for (std::int32_t slot = 0; slot < options.batch; ++slot) {
    const auto prompt = random_tokens(random, 64, vocab);
    for (Home& home : homes) (void)home.driver->prefill(slot, prompt);
  }
  for (std::int32_t step = 0; step < options.steps; ++step) {
    const auto tokens = random_tokens(random, options.batch, vocab);
    for (Home& home : homes) home.decode.push_back(home.driver->decode(tokens));
  }
}

void print(const Home& home, const std::string& name, std::vector<StepTime> times) {
  std::uint64_t hits = 0, misses = 0;
  for (const StepTime& time : times) {
    hits += time.row_hits;
    misses += time.row_misses;
  }
  const auto ms = [&](double StepTime::*member, double share) {
    std::ranges::sort(times, {}, member);
    return 1e3 * times[static_cast<std::size_t>(share * static_cast<double>(times.size() - 1))].*member;
  };
  std::printf("| %s | %s | %.2f | %.2f | %.2f | %.2f | %.2f | %.0f |", name.c_str(), home.name,
              ms(&StepTime::wall, 0.0), ms(&StepTime::wall, 0.5), ms(&StepTime::cpu, 0.5),
              ms(&StepTime::row_wait, 0.0), ms(&StepTime::row_wait, 0.5),
              static_cast<double>(misses) / static_cast<double>(times.size()));
  if (hits + misses > 0)
    std::printf(" %.1f %% |\n", 100.0 * static_cast<double>(hits) / static_cast<double>(hits + misses));
  else
    std::printf(" |\n");
}

/// Gone at the end of the process, whichever that is.
class MadeFolder {
 public:
  explicit MadeFolder(std::filesystem::path path) : path_(std::move(path)) {}
  MadeFolder(const MadeFolder&) = delete;
  ~MadeFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

 private:
  std::filesystem::path path_;
};

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  static const MadeFolder made(options.folder);  // static: fail() leaves by exit
  bench::write_rows_model(options.folder, options.table_mib << 20);
  leave_the_page_cache(options.folder / "model.safetensors");
  const auto folder = model::open_model_folder(options.folder);
  if (!folder.ok()) fail(folder.error().problems);
  std::array<Home, 2> homes;
  open_home(homes[0], options, *folder, model::PleResident::always);
  open_home(homes[1], options, *folder, model::PleResident::never);
  leave_the_page_cache(options.folder / "model.safetensors");
  measure(homes, options, folder->config.vocab_size);
  std::printf(
      "| case | table | ms (best) | ms (median) | CPU ms (median) | waits for rows, ms (best) | (median) | "
      "reads a step | hits |\n|---|---|---:|---:|---:|---:|---:|---:|---:|\n");
  const std::string prefill = "prefill " + std::to_string(options.prompt);
  for (const Home& home : homes) print(home, prefill + ", new tokens", home.cold);
  for (const Home& home : homes) print(home, prefill + ", the same again", home.warm);
  for (const Home& home : homes) print(home, "decode b=" + std::to_string(options.batch), home.decode);
  return 0;
}
