#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "model/arch/model_weights.h"
#include "model/plan/serve_plan.h"

namespace model {

/// What a checkpoint is asked while the map is made: it decides between the forms that files come in.
struct TensorNames {
  std::function<bool(std::string_view name)> has;
  std::function<bool(std::string_view prefix)> has_prefix;
};

/// How a stand-in weight is drawn when there is no checkpoint. Spread around `center`.
struct DummyValues {
  float center = 0.0F;
  float deviation = 0.0F;
};

/// Rows of a file's tensor and the rows of the weight that they fill. A weight may be stored in parts (table
/// shards, single experts), and one tensor may hold the rows of several weights, in another order. Rows of a
/// tensor are those of its last dimension, the dimensions before it flattened.
struct TensorPart {
  std::string name;
  std::vector<std::int64_t> shape;  ///< of the whole tensor, as the file must say
  std::int64_t first_row = 0;       ///< in the weight
  std::int64_t rows = 0;
  std::int64_t first_file_row = 0;  ///< in the tensor
  std::int64_t file_row_step = 1;   ///< from one row of the weight to the next, in rows of the tensor
};

/// One weight of the model: a matrix [rows, cols], or a vector (rows 1).
struct WeightSpec {
  enum class Storage { as_stored, widened } storage = Storage::as_stored;  ///< widened: f32 on the device
  std::int64_t rows = 0, cols = 0;
  std::vector<TensorPart> parts;
  std::variant<Weight*, gpu::ConstMatrix*, gpu::ConstVector*>
      target;  ///< where the view goes once the weight has an address
  DummyValues dummy;
  std::string scale{};  ///< f8_e4m3 parts: the tensor of one number that all are multiplied by; "": none
};

/// I64 numbers that a checkpoint repeats and that must be what the config gives.
struct HashBuffer {
  std::string name;
  const std::vector<std::int64_t>* expected = nullptr;
};

/// Which tensors belong to a model, under which names, in which shapes, and where they go.
struct WeightMap {
  std::vector<WeightSpec> weights;
  std::vector<HashBuffer> hash_buffers;
  std::vector<std::string> final_mixer_injects;  ///< in files now and then, and without a use
};

/// Shapes `skeleton` after the config (optionals engaged, layers counted, hash constants derived) and lists
/// what fills it. The map points into `skeleton`, which must stay where it is until the views are set.
WeightMap map_weights(const ModelConfig& config, const TensorNames& names, ModelWeights& skeleton);

/// Bytes on the device of a model whose files are bf16, for plans that are made without a checkpoint.
/// `matrices`: what matrices become there; none: what they are.
gpu::Bytes device_weight_bytes(const ModelConfig& config, std::optional<gpu::DType> matrices);

/// What a plan that is made without a checkpoint asks about n-gram tables: their size, as if files were bf16;
/// none without a table.
std::optional<PleTableFacts> ple_table_facts(const ModelConfig& config, std::optional<gpu::DType> matrices);

/// Names as the models were published: fused experts, sharded tables, the draft layer there. What a map is
/// made with where there is no file to ask.
TensorNames published_names();

}  // namespace model
