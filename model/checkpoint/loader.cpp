#include "model/checkpoint/loader.h"

#include <algorithm>
#include <set>

#include "model/checkpoint/dummy_weights.h"
#include "model/checkpoint/gguf_names.h"
#include "model/checkpoint/ple_tables.h"
#include "model/checkpoint/weight_check.h"
#include "model/checkpoint/weight_copy.h"

namespace model {
namespace {

constexpr std::int64_t kMaxConfigBytes = 16 << 20;
constexpr std::uint64_t kDummySeed = 20;
constexpr const char* kNoRowsInDummy = "--load-format dummy has no files to read rows from";
constexpr const char* kConfigFile = "config.json";
constexpr const char* kGenerationFile = "generation_config.json";
constexpr const char* kCanaryFile = "canary.json";

/// Bytes done as a fraction, told when it has grown by a thousandth: a checkpoint of many small tensors must
/// not flood a log.
class ProgressMeter {
 public:
  ProgressMeter(const LoadProgress& progress, std::int64_t total)
      : progress_(progress), total_(std::max<std::int64_t>(total, 1)) {}
  void add(std::int64_t bytes) {
    done_ += bytes;
    const double fraction = std::min(1.0, static_cast<double>(done_) / static_cast<double>(total_));
    if (fraction < told_ + 0.001) return;
    tell(fraction);
  }
  void finish() {
    if (told_ < 1.0) tell(1.0);
  }

 private:
  void tell(double fraction) {
    told_ = fraction;
    if (progress_.report) progress_.report(fraction);
  }
  const LoadProgress& progress_;
  std::int64_t total_;
  std::int64_t done_ = 0;
  double told_ = 0.0;
};

LoadError from_stream(const gpu::DeviceError& error) { return LoadError{{"weights: " + error.what}}; }

void adopt(ModelWeights& weights, const ModelConfig& config, WeightStorage storage) {
  if (config.tied_embeddings) weights.head = weights.embedding;
  weights.storage = std::move(storage.buffers);
}

Result<ModelWeights, LoadError> load_dummy(const ModelConfig& config, std::optional<gpu::DType> matrices,
                                           gpu::Device& device, gpu::Stream& stream,
                                           const LoadProgress& progress) {
  ModelWeights weights;
  const WeightMap map = map_weights(config, published_names(), weights);
  std::vector<WeightForm> forms;
  for (const WeightSpec& weight : map.weights)
    forms.push_back({gpu::DType::bf16, device_type(weight, gpu::DType::bf16, matrices)});
  auto storage = place_weights(map, forms, device);
  if (!storage.ok()) return std::move(storage).error();
  ProgressMeter meter(progress, storage->bytes);
  const auto status =
      fill_with_dummy_values(map, *storage, kDummySeed, stream, [&](std::int64_t n) { meter.add(n); });
  if (!status.ok()) return from_stream(status.error());
  adopt(weights, config, std::move(storage).value());
  meter.finish();
  return weights;
}

/// Rows of these are looked up, one here and one there, and never multiplied as a whole.
std::set<const Weight*> lookup_tables(const ModelConfig& config, const ModelWeights& weights) {
  std::set<const Weight*> tables;
  if (!config.tied_embeddings) tables.insert(&weights.embedding);
  for (const LayerWeights& layer : weights.layers)
    if (layer.ple) tables.insert(&layer.ple->table);
  return tables;
}

std::vector<WeightForm> forms_of(const WeightMap& map, const Checkpoint& checkpoint,
                                 const std::set<const Weight*>& tables, std::optional<gpu::DType> matrices) {
  using Layout = kernels::QuantizedMatrix::Layout;
  std::vector<WeightForm> forms;
  for (const WeightSpec& weight : map.weights) {
    const auto* const* target = std::get_if<Weight*>(&weight.target);
    const bool is_table = target != nullptr && tables.contains(*target);
    const StoredType& stored = checkpoint.tensors().find(weight.parts.front().name)->second.entry->type;
    forms.push_back(
        {stored, device_type(weight, stored, matrices), is_table ? Layout::file : Layout::packed});
  }
  return forms;
}

std::int64_t bytes_in_files(const WeightMap& map, const Checkpoint& checkpoint) {
  std::int64_t bytes = 0;
  for (const WeightSpec& weight : map.weights) {
    for (const TensorPart& part : weight.parts) {
      const StoredType& type = checkpoint.tensors().find(part.name)->second.entry->type;
      bytes += part.rows * type.row_bytes(gpu::Elements{weight.cols}).n;
    }
  }
  return bytes;
}

/// A model's files, and what of them goes where. The map points into `weights`, so this stays where it is.
struct OpenedWeights {
  Checkpoint checkpoint;
  ModelWeights weights;
  WeightMap map;
};

Result<std::unique_ptr<OpenedWeights>, LoadError> open_checkpoint(const ModelFolder& folder) {
  auto checkpoint = Checkpoint::open(folder.path);
  if (!checkpoint.ok()) return std::move(checkpoint).error();
  auto opened = std::make_unique<OpenedWeights>();
  opened->checkpoint = *std::move(checkpoint);
  const auto& tensors = opened->checkpoint.tensors();
  const TensorNames names{[&](std::string_view name) { return tensors.find(name) != tensors.end(); },
                          [&](std::string_view prefix) {
                            const auto at = tensors.lower_bound(prefix);
                            return at != tensors.end() && at->first.compare(0, prefix.size(), prefix) == 0;
                          }};
  opened->map = map_weights(folder.config, names, opened->weights);
  return opened;
}

Result<std::unique_ptr<OpenedWeights>, LoadError> open_gguf_weights(const ModelFolder& folder) {
  if (auto problems = check_gguf_hash(*folder.gguf, folder.config); !problems.empty())
    return LoadError{std::move(problems)};
  auto opened = std::make_unique<OpenedWeights>();
  opened->checkpoint = Checkpoint::of(*folder.gguf);
  const GgufNames names({folder.gguf_architecture, folder.config}, opened->checkpoint);
  opened->map = map_weights(folder.config, names.as_safetensors(), opened->weights);
  names.translate(opened->map);
  return opened;
}

Result<std::unique_ptr<OpenedWeights>, LoadError> open_weights(const ModelFolder& folder) {
  return folder.gguf ? open_gguf_weights(folder) : open_checkpoint(folder);
}

/// Quantised tensors among the weights, where matrices must be of one floating type.
std::optional<LoadError> refuse_quantised(const OpenedWeights& opened) {
  std::set<std::string> types;
  for (const WeightSpec& weight : opened.map.weights) {
    const StoredType& type = opened.checkpoint.tensors().find(weight.parts.front().name)->second.entry->type;
    if (type.quantized) types.insert(to_string(type));
  }
  if (types.empty()) return std::nullopt;
  std::string listed;
  for (const std::string& type : types) listed += (listed.empty() ? "" : ", ") + type;
  return LoadError{{"--backend cuda: " + opened.checkpoint.directory() + " holds " + listed +
                    " weights, which run on the CPU backend only (--backend cpu)"}};
}

/// Checks files against the map, then copies.
Result<ModelWeights, LoadError> load_opened(OpenedWeights& opened, const ModelConfig& config,
                                            std::optional<gpu::DType> matrices, PleTables tables,
                                            gpu::Device& device, gpu::Stream& stream,
                                            const LoadProgress& progress) {
  auto& [checkpoint, weights, map] = opened;
  auto leftovers = check_weights(map, checkpoint, config);
  if (!leftovers.ok()) return std::move(leftovers).error();
  if (matrices) {
    if (auto refusal = refuse_quantised(opened)) return *std::move(refusal);
  }
  for (const std::string& line : leftovers->ignored) {
    if (progress.notice) progress.notice(line);
  }
  if (tables == PleTables::stored) leave_tables_in_files(map, weights, checkpoint);
  auto storage =
      place_weights(map, forms_of(map, checkpoint, lookup_tables(config, weights), matrices), device);
  if (!storage.ok()) return std::move(storage).error();
  ProgressMeter meter(progress, bytes_in_files(map, checkpoint));
  const auto status = copy_weights(map, checkpoint, *storage, stream, [&](std::int64_t n) { meter.add(n); });
  if (!status.ok()) return from_stream(status.error());
  adopt(opened.weights, config, std::move(storage).value());
  meter.finish();
  return std::move(opened.weights);
}

Result<ModelFolder, LoadError> open_gguf_model(const std::filesystem::path& path) {
  auto gguf = open_gguf(path);
  if (!gguf.ok()) return std::move(gguf).error();
  auto config = read_gguf_config(*gguf);
  if (!config.ok()) return std::move(config).error();
  auto generation = read_gguf_generation(*gguf);
  if (!generation.ok()) return std::move(generation).error();
  ModelFolder folder;
  folder.path = path;
  folder.config = std::move(config->config);
  folder.gguf_architecture = config->architecture;
  folder.generation = *std::move(generation);
  folder.gguf = std::make_shared<const GgufModel>(*std::move(gguf));
  return folder;
}

}  // namespace

Result<ModelFolder, LoadError> open_model_folder(const std::filesystem::path& path) {
  std::error_code unreadable;
  if (is_gguf_file(path)) return open_gguf_model(path);
  if (!std::filesystem::is_directory(path, unreadable)) return LoadError{{path.string() + ": not a folder"}};
  ModelFolder folder;
  folder.path = path;
  LoadError error;
  const auto take = [&](LoadError found) {
    error.problems.insert(error.problems.end(), found.problems.begin(), found.problems.end());
  };
  if (auto json = read_small_file(path / kConfigFile, kMaxConfigBytes); !json.ok()) {
    take(json.error());
  } else if (auto config = parse_model_config(*json, kConfigFile); !config.ok()) {
    take(config.error());
  } else {
    folder.config = std::move(config).value();
  }
  auto generation = read_optional_file(path / kGenerationFile, kMaxConfigBytes);
  if (!generation.ok()) {
    take(generation.error());
  } else if (const auto& json = *generation) {
    if (auto defaults = parse_generation_config(*json, kGenerationFile); !defaults.ok()) {
      take(defaults.error());
    } else {
      folder.generation = std::move(defaults).value();
    }
  }
  auto canary = read_optional_file(path / kCanaryFile, kMaxConfigBytes);
  if (!canary.ok()) {
    take(canary.error());
  } else if (const auto& json = *canary; json && error.problems.empty()) {
    if (auto answer = parse_known_answer(*json, kCanaryFile, folder.config.vocab_size); !answer.ok()) {
      take(answer.error());
    } else {
      folder.known_answer = std::move(answer).value();
    }
  }
  if (!error.problems.empty()) return error;
  return folder;
}

std::optional<gpu::Bytes> checkpoint_bytes(const ModelFolder& model) {
  if (!model.gguf) return checkpoint_bytes(model.path);
  std::int64_t bytes = 0;
  for (const auto& file : model.gguf->files)
    for (const TensorEntry& entry : file->tensors()) bytes += entry.bytes;
  return gpu::Bytes{bytes};
}

std::optional<gpu::Bytes> checkpoint_bytes(const std::filesystem::path& folder) {
  std::int64_t bytes = 0;
  std::error_code stopped;
  std::filesystem::directory_iterator entry(folder, stopped);
  for (const std::filesystem::directory_iterator end; !stopped && entry != end; entry.increment(stopped)) {
    if (entry->path().extension() != ".safetensors") continue;
    std::error_code unknown;
    const auto size = entry->file_size(unknown);
    if (!unknown) bytes += static_cast<std::int64_t>(size);
  }
  if (bytes == 0) return std::nullopt;
  return gpu::Bytes{bytes};
}

std::optional<PleTableFacts> ple_table_facts(const ModelFolder& model, LoadFormat format,
                                             std::optional<gpu::DType> matrices) {
  if (!model.config.ple) return std::nullopt;
  const auto not_readable = [&](std::string why) {
    auto facts = ple_table_facts(model.config, matrices);
    facts->not_readable = std::move(why);
    return facts;
  };
  if (format == LoadFormat::dummy) return not_readable(kNoRowsInDummy);
  const auto opened = open_weights(model);
  if (!opened.ok()) return not_readable(opened.error().problems.front());
  const auto& [checkpoint, weights, map] = **opened;
  if (const auto checked = check_weights(map, checkpoint, model.config); !checked.ok())
    return not_readable(checked.error().problems.front());
  return ple_table_facts(map, weights, checkpoint, matrices);
}

Result<std::optional<gpu::Bytes>, LoadError> device_weight_bytes(const ModelFolder& model, LoadFormat format,
                                                                 std::optional<gpu::DType> matrices) {
  using Bytes = std::optional<gpu::Bytes>;
  if (format == LoadFormat::dummy) return Bytes(device_weight_bytes(model.config, matrices));
  if (!matrices) {
    auto bytes = checkpoint_bytes(model);
    if (const auto tables = bytes ? ple_table_facts(model, format, matrices) : std::nullopt)
      *bytes += tables->device_bytes - tables->file_bytes;
    return bytes;
  }
  const auto opened = open_weights(model);
  if (!opened.ok()) return Bytes();
  const auto& [checkpoint, weights, map] = **opened;
  if (!check_weights(map, checkpoint, model.config).ok()) return Bytes();
  if (auto refusal = refuse_quantised(**opened)) return *std::move(refusal);
  gpu::Bytes bytes;
  const auto forms = forms_of(map, checkpoint, {}, matrices);
  for (std::size_t i = 0; i < forms.size(); ++i) bytes += device_bytes(map.weights[i], forms[i]);
  return Bytes(bytes);
}

Result<ModelWeights, LoadError> load_weights(const ModelFolder& folder, LoadFormat format,
                                             gpu::Device& device, gpu::Stream& stream,
                                             const LoadProgress& progress, std::optional<gpu::DType> matrices,
                                             PleTables tables) {
  if (format == LoadFormat::dummy && tables == PleTables::stored)
    return LoadError{{std::string("n-gram tables: ") + kNoRowsInDummy}};
  if (format == LoadFormat::dummy) return load_dummy(folder.config, matrices, device, stream, progress);
  auto opened = open_weights(folder);
  if (!opened.ok()) return std::move(opened).error();
  auto weights = load_opened(**opened, folder.config, matrices, tables, device, stream, progress);
  if (weights.ok() && folder.gguf) {
    for (const auto& file : folder.gguf->files) file->release_all();
  }
  return weights;
}

}  // namespace model
