#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/checkpoint/gguf_file.h"
#include "model/checkpoint/safetensors.h"

namespace model {

/// The tensors of a model: of a folder's model.safetensors, of the files that model.safetensors.index.json
/// names, or of a GGUF file and those it was split into. Owns the mappings.
class Checkpoint {
 public:
  /// Opens nothing outside `folder`: a name in the index that is more than a plain file name is refused
  /// unopened.
  static Result<Checkpoint, LoadError> open(const std::filesystem::path& folder);
  static Checkpoint of(const GgufModel& model);

  struct Location {
    const TensorFile* file = nullptr;
    const TensorEntry* entry = nullptr;
  };
  const std::map<std::string, Location, std::less<>>& tensors() const { return tensors_; }
  const StoredType& type_of(const std::string& tensor) const {
    return tensors_.find(tensor)->second.entry->type;
  }
  bool has(std::string_view name) const { return tensors_.find(name) != tensors_.end(); }
  /// The file that says which tensors there are: what a missing tensor is missing from.
  const std::string& directory() const { return directory_; }

 private:
  std::vector<std::shared_ptr<const TensorFile>> files_;  // stable addresses
  std::map<std::string, Location, std::less<>> tensors_;
  std::string directory_;
};

/// weight_map of an index: tensor → plain file name. All problems at once, each naming `file`. Pure.
Result<std::map<std::string, std::string>, LoadError> parse_shard_index(std::string_view json,
                                                                        std::string_view file);

}  // namespace model
