#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "model/arch/limits.h"
#include "model/checkpoint/gguf_file.h"

namespace model {

/// Reads metadata key by key. A missing or wrong value becomes a problem that names file and key, and the
/// reader goes on, so that all problems are found in one pass.
class GgufReader {
 public:
  GgufReader(const GgufModel& model, std::vector<std::string>& problems)
      : metadata_(model.metadata()), file_(model.name()), problems_(problems) {}

  bool has(std::string_view key) const { return metadata_.find(key) != metadata_.end(); }
  /// None where the key is absent, or after a problem was noted.
  std::optional<std::int64_t> integer(std::string_view key, IntegerRange range);
  std::optional<double> number(std::string_view key);
  std::optional<bool> boolean(std::string_view key);
  std::optional<std::string_view> text(std::string_view key);
  /// A number, or a list of numbers.
  std::vector<std::int64_t> integers(std::string_view key);
  std::vector<std::string_view> texts(std::string_view key);

  void problem(std::string_view key, std::string_view what);
  void require(std::string_view key);  ///< a problem where it is absent

 private:
  const GgufValue* find(std::string_view key) const;

  const GgufFile::Metadata& metadata_;
  const std::string& file_;
  std::vector<std::string>& problems_;
};

}  // namespace model
