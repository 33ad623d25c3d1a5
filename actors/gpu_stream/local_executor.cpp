#include "actors/gpu_stream/local_executor.h"

#include <algorithm>
#include <ctime>
#include <iterator>
#include <thread>
#include <utility>

#include "actors/gpu_stream/canary.h"
#include "actors/gpu_stream/compute_backend.h"
#include "actors/gpu_stream/served_text.h"
#include "kernels/hooked_ops.h"
#include "model/checkpoint/loader.h"
#include "model/runner/runner.h"
#include "model/runner/step_drill.h"
#include "model/text/unicode.h"

namespace actors {
namespace {

namespace fs = std::filesystem;
using model::LoadError;

int num_workers(const model::ServeOptions& options) {
  return options.threads > 0 ? options.threads
                             : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

void append(std::vector<std::string>& problems, LoadError error) {
  problems.insert(problems.end(), std::make_move_iterator(error.problems.begin()),
                  std::make_move_iterator(error.problems.end()));
}

/// Why this model runs on the CPU whatever else there is; "" where it does not.
std::string needs_cpu(const model::ModelFolder& folder) {
  if (!folder.gguf) return "";
  for (const auto& file : folder.gguf->files) {
    for (const auto& tensor : file->tensors()) {
      if (tensor.type.quantized)
        return folder.gguf->name() + ": quantised weights (" + to_string(tensor.type) + ") run on the CPU";
    }
  }
  return "";
}

std::shared_ptr<ServedModel> served_of(const model::ModelFolder& folder, const std::string& name,
                                       const model::ServeOptions& options) {
  auto served = std::make_shared<ServedModel>();
  served->names =
      options.served_model_names.empty() ? std::vector<std::string>{name} : options.served_model_names;
  for (auto& served_name : served->names) served_name = model::text::printable(served_name);
  served->created = std::time(nullptr);
  served->config = folder.config;
  served->generation = folder.generation;
  served->stop_tokens = folder.generation.eos.empty() ? folder.config.eos : folder.generation.eos;
  served->watchdog.on = options.content_loop_watchdog;
  served->watchdog.max_rollbacks = options.max_rollbacks.value_or(served->watchdog.max_rollbacks);
  served->watchdog.max_points = options.plan.snapshot_slots;
  return served;
}

void derive_plan(const model::ModelFolder& folder, const model::ServeOptions& options,
                 const gpu::DeviceFacts& facts, ServedModel& served, std::vector<std::string>& problems) {
  model::PlanOptions plan_options = options.plan;
  auto weight_bytes = model::device_weight_bytes(
      folder, options.load_format, model::weight_matrix_type(options.plan.dtype, facts.backend));
  if (!weight_bytes.ok()) return append(problems, std::move(weight_bytes).error());
  plan_options.weight_bytes = *weight_bytes;
  plan_options.ple_table = model::ple_table_facts(
      folder, options.load_format, model::weight_matrix_type(options.plan.dtype, facts.backend));
  auto plan = model::derive_serve_plan(folder.config, plan_options, facts);
  if (!plan.ok()) return append(problems, std::move(plan).error());
  served.plan = *plan;
  const bool drills_reads = std::any_of(options.faults.begin(), options.faults.end(), [](const auto& order) {
    return order.kind == model::FaultKind::row_read_error;
  });
  if (drills_reads && plan->ple_tables != model::PleTables::stored) {
    problems.push_back("ATLAS_TEST_FAULT row_read_error: no n-gram table is read from files (" +
                       (plan->ple_tables_why.empty() ? "this model has none" : plan->ple_tables_why) + ")");
  }
}

/// A Runner whose steps meet ordered faults.
class DrilledExecutor final : public model::StepExecutor {
 public:
  DrilledExecutor(std::unique_ptr<model::StepDrill> drill, std::unique_ptr<model::Runner> runner)
      : drill_(std::move(drill)), runner_(std::move(runner)) {
    runner_->set_drill(drill_.get());
  }
  model::Result<model::StepResult, model::FatalError> step(const model::StepPlan& plan) override {
    return runner_->step(plan);
  }
  std::uint64_t progress() const override { return runner_->progress(); }

 private:
  std::unique_ptr<model::StepDrill> drill_;  // first: it outlives the runner
  std::unique_ptr<model::Runner> runner_;
};

/// What the canary has to say, where these weights are those that it was written for and there is room.
std::optional<model::KnownAnswer> known_answer_of(const model::ModelFolder& folder,
                                                  const model::ServeOptions& options,
                                                  const model::ServePlan& plan, const LocalLog& log) {
  if (!folder.known_answer || options.load_format == model::LoadFormat::dummy) return std::nullopt;
  if (positions_of(*folder.known_answer) <= plan.max_seq_len) return folder.known_answer;
  if (log.notice)
    log.notice("canary.json: its " + std::to_string(positions_of(*folder.known_answer)) +
               " positions are more than --max-seq-len " + std::to_string(plan.max_seq_len) +
               ": a shorter canary runs, whose tokens are not known");
  return std::nullopt;
}

/// Loads the model on the thread that owns its device from then on.
struct LocalExecutorFactory {
  model::ModelFolder folder;
  model::LoadFormat format;
  model::ServePlan plan;
  std::shared_ptr<ComputeBackend> backend;
  std::vector<model::FaultOrder> faults;
  LocalLog log;

  model::Result<std::unique_ptr<model::StepExecutor>, LoadError> operator()(HealthWord& word) const {
    word.set_stage("loading weights");
    word.set_progress(0.0);
    // Copies of the factory lie with other threads: the device is not to end on one of those.
    const std::shared_ptr<gpu::Device> device = std::move(backend->device);
    auto stream = device->create_stream();
    if (!stream.ok()) return LoadError{{std::move(stream).error().what}};
    const model::LoadProgress progress{[&word](double fraction) { word.set_progress(fraction); }, log.notice};
    auto weights = model::load_weights(folder, format, *device, **stream, progress, plan.weight_matrices,
                                       plan.ple_tables);
    if (!weights.ok()) return std::move(weights).error();
    word.set_stage("reserving memory");
    auto ops = make_ops(*device);
    if (!ops.ok()) return LoadError{{std::move(ops).error().what}};
    std::unique_ptr<model::StepDrill> drill;
    if (!faults.empty()) {
      drill = std::make_unique<model::StepDrill>(faults);
      ops = drilled(*std::move(ops), *drill);
    }
    auto runner = model::Runner::create(device, std::move(*stream), *std::move(ops), folder.config,
                                        std::move(*weights), plan);
    if (!runner.ok()) return std::move(runner).error();
    if (const std::string note = (*runner)->row_store_note(); !note.empty() && log.notice) log.notice(note);
    std::unique_ptr<model::StepExecutor> executor;
    if (drill == nullptr) {
      executor = *std::move(runner);
    } else {
      executor = std::make_unique<DrilledExecutor>(std::move(drill), *std::move(runner));
    }
    return executor;
  }

 private:
  gpu::Result<std::unique_ptr<kernels::Ops>, gpu::DeviceError> make_ops(gpu::Device& device) const {
    const kernels::BackendLog warn = [warning = log.warning](const std::string& line) {
      if (warning) warning(line);
    };
    if (backend->module == nullptr) return kernels::make_cpu_ops(warn);
    return backend->module->make_ops(device, warn);
  }

  static std::unique_ptr<kernels::Ops> drilled(std::unique_ptr<kernels::Ops> ops, model::StepDrill& drill) {
    return std::make_unique<kernels::HookedOps>(
        std::move(ops),
        [&drill](gpu::Stream& stream, std::string_view op) { return drill.before_op(stream, op); });
  }
};

}  // namespace

model::Result<LocalModel, LoadError> open_local_model(const fs::path& folder, const std::string& name,
                                                      const model::ServeOptions& options, LocalLog log) {
  LoadError wrong{model::not_in_this_build(options)};
  auto opened = model::open_model_folder(folder);
  if (!opened.ok()) return std::move(opened).error();
  auto backend = choose_backend({options.backend, num_workers(options), needs_cpu(*opened)},
                                [] { return kernels::load_backend_module(kernels::cuda_module_path()); });
  auto served = served_of(*opened, name, options);
  if (backend.ok()) {
    derive_plan(*opened, options, backend->facts, *served, wrong.problems);
    served->backend = info_of(*backend);
  } else {
    append(wrong.problems, std::move(backend).error());
  }
  read_served_text(*opened, options.chat_template, *served, wrong.problems);
  if (!wrong.problems.empty()) return wrong;

  served->known_answer = known_answer_of(*opened, options, served->plan, log);

  LocalModel local;
  local.backend_note = describe(*backend);
  local.make_executor =
      LocalExecutorFactory{std::move(*opened), options.load_format,
                           served->plan,       std::make_shared<ComputeBackend>(*std::move(backend)),
                           options.faults,     std::move(log)};
  local.served = std::move(served);
  return local;
}

}  // namespace actors
