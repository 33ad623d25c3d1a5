#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "gpu/device.h"
#include "model/arch/model_config.h"
#include "model/arch/model_weights.h"
#include "model/checkpoint/gguf_config.h"

namespace model {

/// A model opened, nothing of its weights read: config, generation defaults, where tokenizer and template
/// are.
struct ModelFolder {
  std::filesystem::path path;
  ModelConfig config;
  GenerationDefaults generation;
  std::shared_ptr<const GgufModel> gguf;  ///< where `path` is a GGUF file and no folder
  GgufArchitecture gguf_architecture = GgufArchitecture::llama;
};
/// A folder with config.json, or a file whose name ends in .gguf.
Result<ModelFolder, LoadError> open_model_folder(const std::filesystem::path& path);

/// What the folder's safetensors files hold together, or the GGUF file's tensors, for the plan; none when
/// there is none of them.
std::optional<gpu::Bytes> checkpoint_bytes(const ModelFolder& model);
std::optional<gpu::Bytes> checkpoint_bytes(const std::filesystem::path& folder);

enum class LoadFormat {
  automatic,
  dummy
};  ///< dummy: seeded random weights in the checkpoint's shapes (bf16), for benchmarks; needs config.json
    ///< only
struct LoadProgress {
  std::function<void(double fraction)> report;        ///< 0 … 1, monotonic
  std::function<void(std::string_view line)> notice;  ///< ignored tensors, named once
};

/// Maps the safetensors files (single, or sharded with an index) or the GGUF file, checks every header and
/// tensor against the config, and copies the weights to the device. Missing or surplus tensors, wrong shapes
/// or dtypes, and I64 hash buffers that differ from the derivation are all listed at once, naming file and
/// tensor.
Result<ModelWeights, LoadError> load_weights(const ModelFolder& folder, LoadFormat format,
                                             gpu::Device& device, gpu::Stream& stream,
                                             const LoadProgress& progress);

}  // namespace model
