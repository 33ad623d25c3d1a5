#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/gguf_config.h"
#include "model/checkpoint/weight_map.h"

namespace model {

/// Rows of one tensor of a GGUF file that stand for rows of a tensor as safetensors name it.
struct GgufPiece {
  std::string tensor;
  std::vector<std::int64_t> shape;
  std::int64_t first_row = 0, rows = 0;                ///< of the safetensors' tensor
  std::int64_t first_file_row = 0, file_row_step = 1;  ///< of the GGUF file's
};

/// Where a GGUF file keeps what safetensors keep under another name, in other parts or in another order:
/// renamed tensors, experts' gates and ups apart, an indexer's projection in two, the rows of `llama`'s
/// queries and keys by pairs. Values never change; rows move.
class GgufNames {
 public:
  GgufNames(GgufConfig config, const Checkpoint& checkpoint);

  /// Nothing for a name that has no place in a GGUF file.
  std::vector<GgufPiece> pieces(std::string_view name, const std::vector<std::int64_t>& shape) const;

  /// What a map is made with: answers for the names of safetensors.
  TensorNames as_safetensors() const;
  /// The map with the file's tensors in the place of those of safetensors.
  void translate(WeightMap& map) const;

 private:
  bool has(std::string_view name) const;
  std::string renamed(std::string_view name) const;
  GgufPiece whole(std::string tensor, const std::vector<std::int64_t>& shape) const;
  std::vector<GgufPiece> by_pairs(const std::string& tensor, const std::vector<std::int64_t>& shape) const;
  std::vector<GgufPiece> joined(const std::vector<std::string>& tensors, std::vector<std::int64_t> rows,
                                std::int64_t groups, std::int64_t cols) const;
  std::vector<GgufPiece> table_rows(std::string_view layer, const std::vector<std::int64_t>& shape) const;

  GgufConfig config_;
  const Checkpoint& checkpoint_;
};

/// The n-gram hash's numbers in the metadata against those that the config gives. Problems name the keys.
std::vector<std::string> check_gguf_hash(const GgufModel& model, const ModelConfig& config);

}  // namespace model
