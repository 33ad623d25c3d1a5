#pragma once

#include "model/arch/model_config.h"
#include "model/checkpoint/gguf_file.h"

namespace model {

/// Architectures of GGUF files that are served.
enum class GgufArchitecture { llama, qwen3, qwen3moe, qwen3next, qwen35, qwen35moe, qwen4exp };

/// What a GGUF file's metadata says about the model: first translated into the config.json that the same
/// model has, so that one reader checks both.
struct GgufConfig {
  GgufArchitecture architecture = GgufArchitecture::llama;
  ModelConfig config;
};
/// All problems at once, each naming the file and the key.
Result<GgufConfig, LoadError> read_gguf_config(const GgufModel& model);

/// "llama, qwen3, …"
std::string gguf_architecture_names();

/// Defaults of sampling (general.sampling.*), where the file has them.
Result<GenerationDefaults, LoadError> read_gguf_generation(const GgufModel& model);

}  // namespace model
