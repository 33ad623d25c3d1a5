#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "gpu/device.h"
#include "model/arch/known_answer.h"
#include "model/arch/model_config.h"
#include "model/arch/model_weights.h"
#include "model/checkpoint/gguf_config.h"
#include "model/plan/serve_plan.h"

namespace model {

/// A model opened, nothing of its weights read: config, generation defaults, where tokenizer and template
/// are.
struct ModelFolder {
  std::filesystem::path path;
  ModelConfig config;
  GenerationDefaults generation;
  std::optional<KnownAnswer> known_answer;  ///< of canary.json
  std::shared_ptr<const GgufModel> gguf;    ///< where `path` is a GGUF file and no folder
  GgufArchitecture gguf_architecture = GgufArchitecture::llama;
};
/// A folder with config.json, or a file whose name ends in .gguf.
Result<ModelFolder, LoadError> open_model_folder(const std::filesystem::path& path);

enum class LoadFormat {
  automatic,
  dummy
};  ///< dummy: seeded random weights in the checkpoint's shapes (bf16), for benchmarks; needs config.json
    ///< only

/// What the folder's safetensors files hold together, or the GGUF file's tensors, for the plan; none when
/// there is none of them.
std::optional<gpu::Bytes> checkpoint_bytes(const ModelFolder& model);
std::optional<gpu::Bytes> checkpoint_bytes(const std::filesystem::path& folder);

/// Of the model's n-gram tables, for the plan, from the headers of the files; none where there is no table,
/// or where load_weights will find a problem.
std::optional<PleTableFacts> ple_table_facts(const ModelFolder& model, LoadFormat format,
                                             std::optional<gpu::DType> matrices);

/// What the weights will take of a device whose matrices become `matrices`, for the plan, from the headers of
/// the files. n-gram tables included. `matrices` none: checkpoint_bytes, f8 tables as
/// the bf16 that they become. None where load_weights will find a problem; an error only
/// for what no other file would help: quantised weights that the device cannot hold.
Result<std::optional<gpu::Bytes>, LoadError> device_weight_bytes(const ModelFolder& model, LoadFormat format,
                                                                 std::optional<gpu::DType> matrices);

struct LoadProgress {
  std::function<void(double fraction)> report;        ///< 0 … 1, monotonic
  std::function<void(std::string_view line)> notice;  ///< ignored tensors, named once
};

/// Maps the safetensors files (single, or sharded with an index) or the GGUF file, checks every header and
/// tensor against the config, and copies the weights to the device. Missing or surplus tensors, wrong shapes
/// or dtypes, and I64 hash buffers that differ from the derivation are all listed at once, naming file and
/// tensor. `matrices` (ServePlan::weight_matrices): the one type, f32 or bf16, that matrices become on the
/// device, to nearest even; none: they stay what they are. Quantised ones stay or are refused: they are
/// packed where the device's memory is this process's own. `tables` (ServePlan::ple_tables): n-gram tables
/// that stay in their files are checked by their headers, and no byte of them is read.
Result<ModelWeights, LoadError> load_weights(const ModelFolder& folder, LoadFormat format,
                                             gpu::Device& device, gpu::Stream& stream,
                                             const LoadProgress& progress,
                                             std::optional<gpu::DType> matrices = std::nullopt,
                                             PleTables tables = PleTables::resident);

}  // namespace model
