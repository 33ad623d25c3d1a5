#include "model/checkpoint/loader.h"

#include <algorithm>

#include "model/checkpoint/dummy_weights.h"
#include "model/checkpoint/weight_check.h"
#include "model/checkpoint/weight_copy.h"

namespace model {
namespace {

constexpr std::int64_t kMaxConfigBytes = 16 << 20;
constexpr std::uint64_t kDummySeed = 20;
constexpr const char* kConfigFile = "config.json";
constexpr const char* kGenerationFile = "generation_config.json";

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

Result<ModelWeights, LoadError> load_dummy(const ModelConfig& config, gpu::Device& device,
                                           gpu::Stream& stream, const LoadProgress& progress) {
  ModelWeights weights;
  const WeightMap map = map_weights(config, published_names(), weights);
  const std::vector<gpu::DType> stored(map.weights.size(), gpu::DType::bf16);
  auto storage = place_weights(map, stored, device);
  if (!storage.ok()) return std::move(storage).error();
  ProgressMeter meter(progress, storage->bytes);
  const auto status =
      fill_with_dummy_values(map, *storage, kDummySeed, stream, [&](std::int64_t n) { meter.add(n); });
  if (!status.ok()) return from_stream(status.error());
  adopt(weights, config, std::move(storage).value());
  meter.finish();
  return weights;
}

Result<ModelWeights, LoadError> load_checkpoint(const ModelFolder& folder, gpu::Device& device,
                                                gpu::Stream& stream, const LoadProgress& progress) {
  auto checkpoint = Checkpoint::open(folder.path);
  if (!checkpoint.ok()) return std::move(checkpoint).error();

  const auto& tensors = checkpoint->tensors();
  const TensorNames names{[&](std::string_view name) { return checkpoint->has(name); },
                          [&](std::string_view prefix) {
                            const auto at = tensors.lower_bound(prefix);
                            return at != tensors.end() && at->first.compare(0, prefix.size(), prefix) == 0;
                          }};
  ModelWeights weights;
  const WeightMap map = map_weights(folder.config, names, weights);
  auto leftovers = check_weights(map, *checkpoint, folder.config);
  if (!leftovers.ok()) return std::move(leftovers).error();
  for (const std::string& line : leftovers->ignored) {
    if (progress.notice) progress.notice(line);
  }

  std::vector<gpu::DType> stored;
  std::int64_t file_bytes = 0;
  for (const WeightSpec& weight : map.weights) {
    stored.push_back(tensors.find(weight.parts.front().name)->second.entry->dtype);
    for (const TensorPart& part : weight.parts) file_bytes += tensors.find(part.name)->second.entry->bytes;
  }
  auto storage = place_weights(map, stored, device);
  if (!storage.ok()) return std::move(storage).error();
  ProgressMeter meter(progress, file_bytes);
  const auto status = copy_weights(map, *checkpoint, *storage, stream, [&](std::int64_t n) { meter.add(n); });
  if (!status.ok()) return from_stream(status.error());
  adopt(weights, folder.config, std::move(storage).value());
  meter.finish();
  return weights;
}

}  // namespace

Result<ModelFolder, LoadError> open_model_folder(const std::filesystem::path& path) {
  std::error_code unreadable;
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
  if (!error.problems.empty()) return error;
  return folder;
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

Result<ModelWeights, LoadError> load_weights(const ModelFolder& folder, LoadFormat format,
                                             gpu::Device& device, gpu::Stream& stream,
                                             const LoadProgress& progress) {
  if (format == LoadFormat::dummy) return load_dummy(folder.config, device, stream, progress);
  return load_checkpoint(folder, device, stream, progress);
}

}  // namespace model
