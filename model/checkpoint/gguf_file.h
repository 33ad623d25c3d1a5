#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "model/checkpoint/gguf_header.h"

namespace model {

/// A checked GGUF file. Metadata views point into the mapping.
class GgufFile : public TensorFile {
 public:
  /// `name` is how problems call the file.
  static Result<GgufFile, LoadError> open(const std::filesystem::path& path, const std::string& name);

  using Metadata = std::map<std::string_view, GgufValue, std::less<>>;
  const Metadata& metadata() const { return metadata_; }

 private:
  Metadata metadata_;
};

/// A model in one GGUF file, or in the files that it was split into.
struct GgufModel {
  std::vector<std::shared_ptr<const GgufFile>> files;  ///< in order; the first has the metadata

  const GgufFile::Metadata& metadata() const { return files.front()->metadata(); }
  const std::string& name() const { return files.front()->name(); }
  const TensorEntry* find(std::string_view tensor) const;
};

/// By its name: whether there is such a file, and what is in it, opening tells.
bool is_gguf_file(const std::filesystem::path& path);

/// Opens `path`, and where it is the first of a split model (NAME-00001-of-0000N.gguf) the other files beside
/// it.
Result<GgufModel, LoadError> open_gguf(const std::filesystem::path& path);

}  // namespace model
