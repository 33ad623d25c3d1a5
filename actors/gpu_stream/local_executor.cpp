#include "actors/gpu_stream/local_executor.h"

#include <simdjson.h>
#include <ctime>
#include <iterator>
#include <optional>
#include <thread>

#include "gpu/device.h"
#include "kernels/ops.h"
#include "model/checkpoint/gguf_text.h"
#include "model/checkpoint/loader.h"
#include "model/checkpoint/mapped_file.h"
#include "model/runner/runner.h"
#include "model/text/chat_template.h"
#include "model/text/tokenizer.h"
#include "model/text/unicode.h"

namespace actors {
namespace {

namespace fs = std::filesystem;
using model::LoadError;

constexpr std::int64_t kMaxTextFileBytes = 256 << 20;

int num_workers(const model::ServeOptions& options) {
  return options.threads > 0 ? options.threads
                             : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

void append(std::vector<std::string>& problems, LoadError error) {
  problems.insert(problems.end(), std::make_move_iterator(error.problems.begin()),
                  std::make_move_iterator(error.problems.end()));
}

/// What the CPU cannot do, said before anything is loaded.
void check_backend(const model::ServeOptions& options, std::vector<std::string>& problems) {
  if (options.backend == "cuda") problems.push_back("--backend cuda: this build has no CUDA backend");
  for (const auto& [flag, dtype] :
       {std::pair("--dtype", options.dtype), std::pair("--kv-cache-dtype", options.kv_cache_dtype)}) {
    if (dtype == "bfloat16")
      problems.push_back(std::string(flag) + " bfloat16: the CPU backend computes in float32 only");
  }
}

/// The file's text; none when it is not there, or when a problem was noted.
std::optional<std::string> read_text(const fs::path& path, std::vector<std::string>& problems) {
  auto text = model::read_optional_file(path, kMaxTextFileBytes);
  if (text.ok()) return *std::move(text);
  append(problems, std::move(text).error());
  return std::nullopt;
}

/// tokenizer_config.json's chat_template: a text, or a list of named ones whose "default" is meant.
std::optional<std::string> template_of_config(std::string_view json, std::vector<std::string>& problems) {
  simdjson::dom::parser parser;
  simdjson::dom::element root, source;
  if (const auto error = parser.parse(json.data(), json.size()).get(root)) {
    problems.push_back("tokenizer_config.json: " + std::string(simdjson::error_message(error)));
    return std::nullopt;
  }
  if (root["chat_template"].get(source) != simdjson::SUCCESS || source.is_null()) return std::nullopt;
  std::string_view text;
  if (source.get(text) == simdjson::SUCCESS) return std::string(text);
  simdjson::dom::array list;
  if (source.get(list) == simdjson::SUCCESS) {
    for (const simdjson::dom::element item : list) {
      std::string_view name;
      if (item["name"].get(name) == simdjson::SUCCESS && name == "default" &&
          item["template"].get(text) == simdjson::SUCCESS)
        return std::string(text);
    }
  }
  problems.push_back(
      "tokenizer_config.json: chat_template is neither a text nor a list of named templates with a "
      "\"default\"");
  return std::nullopt;
}

void read_tokenizer(const fs::path& folder, ServedModel& served, std::vector<std::string>& problems) {
  const fs::path path = folder / "tokenizer.json";
  const auto json = read_text(path, problems);
  if (!json) return;  // token ids only
  auto tokenizer = model::text::Tokenizer::from_json(*json, path.string());
  if (!tokenizer.ok()) return append(problems, std::move(tokenizer).error());
  if ((*tokenizer)->size() > served.config.vocab_size) {
    problems.push_back(path.string() + ": token ids up to " + std::to_string((*tokenizer)->size() - 1) +
                       "; config.json has a vocab_size of " + std::to_string(served.config.vocab_size));
    return;
  }
  served.tokenizer = std::move(*tokenizer);
}

/// --chat-template, else chat_template.jinja, else the tokenizer's configuration.
void read_template(const fs::path& folder, const std::string& named, ServedModel& served,
                   std::vector<std::string>& problems) {
  const auto config = read_text(folder / "tokenizer_config.json", problems);
  std::optional<std::string> of_config;
  if (config) of_config = template_of_config(*config, problems);
  fs::path path = named.empty() ? folder / "chat_template.jinja" : fs::path(named);
  auto source = read_text(path, problems);
  if (!source && !named.empty()) {
    problems.push_back("--chat-template " + named + ": cannot be read");
    return;
  }
  if (!source) {
    path = folder / "tokenizer_config.json";
    source = std::move(of_config);
  }
  if (!source) return;
  auto parsed = model::text::ChatTemplate::parse(*source, config.value_or(""), path.string());
  if (!parsed.ok()) return append(problems, std::move(parsed).error());
  served.chat_template = std::move(*parsed);
}

/// The same out of a GGUF file.
void read_gguf_text_into(const model::GgufModel& gguf, const std::string& named, ServedModel& served,
                         std::vector<std::string>& problems) {
  auto text = model::read_gguf_text(gguf);
  if (!text.ok()) return append(problems, std::move(text).error());
  if (!text->stop_tokens.empty()) served.stop_tokens = text->stop_tokens;
  if (!text->tokenizer) return;  // token ids only
  auto tokenizer = model::text::Tokenizer::from_parts(std::move(*text->tokenizer), gguf.name());
  if (!tokenizer.ok()) return append(problems, std::move(tokenizer).error());
  served.tokenizer = std::move(*tokenizer);
  std::string path = gguf.name() + ": tokenizer.chat_template";
  std::optional<std::string> source = std::move(text->chat_template);
  if (!named.empty()) {
    source = read_text(named, problems);
    path = named;
    if (!source) problems.push_back("--chat-template " + named + ": cannot be read");
  }
  if (!source) return;
  auto parsed = model::text::ChatTemplate::parse(*source, text->special_tokens_json, path);
  if (!parsed.ok()) return append(problems, std::move(parsed).error());
  served.chat_template = std::move(*parsed);
}

/// Brings the device up on the thread that will own it.
struct HostExecutorFactory {
  model::ModelFolder folder;
  model::LoadFormat format;
  model::ServePlan plan;
  int workers;
  std::function<void(std::string_view)> notice;

  model::Result<std::unique_ptr<model::StepExecutor>, LoadError> operator()(HealthWord& word) const {
    word.set_stage("loading weights");
    word.set_progress(0.0);
    std::shared_ptr<gpu::Device> device = gpu::make_host_device(workers);
    auto stream = device->create_stream();
    if (!stream.ok()) return LoadError{{std::move(stream).error().what}};
    const model::LoadProgress progress{[&word](double fraction) { word.set_progress(fraction); }, notice};
    auto weights = model::load_weights(folder, format, *device, **stream, progress);
    if (!weights.ok()) return std::move(weights).error();
    word.set_stage("reserving memory");
    auto runner = model::Runner::create(device, std::move(*stream), kernels::make_cpu_ops(), folder.config,
                                        std::move(*weights), plan);
    if (!runner.ok()) return std::move(runner).error();
    return std::unique_ptr<model::StepExecutor>(std::move(*runner));
  }
};

}  // namespace

model::Result<LocalModel, LoadError> open_local_model(const fs::path& folder, const std::string& name,
                                                      const model::ServeOptions& options,
                                                      std::function<void(std::string_view)> notice) {
  LoadError wrong;
  check_backend(options, wrong.problems);
  auto opened = model::open_model_folder(folder);
  if (!opened.ok()) {
    append(wrong.problems, std::move(opened).error());
    return wrong;
  }
  auto served = std::make_shared<ServedModel>();
  served->names =
      options.served_model_names.empty() ? std::vector<std::string>{name} : options.served_model_names;
  for (auto& served_name : served->names) served_name = model::text::printable(served_name);
  served->created = std::time(nullptr);
  served->config = opened->config;
  served->generation = opened->generation;
  served->stop_tokens = opened->generation.eos.empty() ? opened->config.eos : opened->generation.eos;
  const int workers = num_workers(options);
  model::PlanOptions plan_options = options.plan;
  if (options.load_format == model::LoadFormat::automatic)
    plan_options.weight_bytes = model::checkpoint_bytes(*opened);
  auto plan = model::derive_serve_plan(opened->config, plan_options, gpu::make_host_device(workers)->facts());
  if (plan.ok()) {
    served->plan = *plan;
  } else {
    append(wrong.problems, std::move(plan).error());
  }
  if (opened->gguf) {
    read_gguf_text_into(*opened->gguf, options.chat_template, *served, wrong.problems);
  } else {
    read_tokenizer(folder, *served, wrong.problems);
    if (served->tokenizer) read_template(folder, options.chat_template, *served, wrong.problems);
  }
  if (!wrong.problems.empty()) return wrong;

  LocalModel local;
  local.make_executor =
      HostExecutorFactory{std::move(*opened), options.load_format, served->plan, workers, std::move(notice)};
  local.served = std::move(served);
  local.backend = "cpu";
  local.backend_note = "backend cpu (" + std::to_string(workers) + " workers" +
                       (options.backend == "auto" ? "; this build has no CUDA backend)" : ")");
  return local;
}

}  // namespace actors
