#include "model/checkpoint/gguf_file.h"

#include <cstdio>
#include <set>

namespace model {
namespace {

constexpr std::int64_t kMaxSplits = 9'999;
constexpr std::string_view kSplitNumberKey = "split.no", kSplitCountKey = "split.count";

std::int64_t integer_or(const GgufFile& file, std::string_view key, std::int64_t fallback) {
  const auto found = file.metadata().find(key);
  const auto* value = found == file.metadata().end() ? nullptr : std::get_if<std::int64_t>(&found->second);
  return value == nullptr ? fallback : *value;
}

/// "-00002-of-00005.gguf"
std::string split_ending(std::int64_t number, std::int64_t count) {
  char text[48];
  std::snprintf(text, sizeof text, "-%05d-of-%05d.gguf", static_cast<int>(number), static_cast<int>(count));
  return text;
}

}  // namespace

Result<GgufFile, LoadError> GgufFile::open(const std::filesystem::path& path, const std::string& name) {
  auto mapped = MappedFile::open(path);
  if (!mapped.ok()) return LoadError{{name + ": " + mapped.error()}};
  auto header = parse_gguf({mapped->base(), static_cast<std::size_t>(mapped->size())}, name);
  if (!header.ok()) return std::move(header).error();
  GgufFile file;
  file.name_ = name;
  file.path_ = path;
  file.data_start_ = header->data_start;
  file.tensors_ = std::move(header->tensors);
  file.metadata_ = std::move(header->metadata);
  file.mapped_ = *std::move(mapped);
  return file;
}

const TensorEntry* GgufModel::find(std::string_view tensor) const {
  for (const auto& file : files) {
    for (const TensorEntry& entry : file->tensors())
      if (entry.name == tensor) return &entry;
  }
  return nullptr;
}

bool is_gguf_file(const std::filesystem::path& path) {
  std::error_code unknown;
  return path.extension() == ".gguf" && !std::filesystem::is_directory(path, unknown);
}

Result<GgufModel, LoadError> open_gguf(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  auto first = GgufFile::open(path, name);
  if (!first.ok()) return std::move(first).error();
  GgufModel model;
  model.files.push_back(std::make_shared<const GgufFile>(*std::move(first)));
  const std::int64_t count = integer_or(*model.files.front(), kSplitCountKey, 1);
  if (count <= 1) return model;

  const std::string ending = split_ending(1, count);
  if (count > kMaxSplits || integer_or(*model.files.front(), kSplitNumberKey, 0) != 0 ||
      !name.ends_with(ending)) {
    return LoadError{
        {name + ": is one of " + std::to_string(count) +
         " files of a split model; MODEL has to be the first of them, with a name that ends in " +
         (count > kMaxSplits ? "-00001-of-0000N.gguf" : ending)}};
  }
  const std::string stem = name.substr(0, name.size() - ending.size());
  LoadError error;
  std::set<std::string_view> seen;
  for (const TensorEntry& entry : model.files.front()->tensors()) seen.insert(entry.name);
  for (std::int64_t number = 2; number <= count; ++number) {
    const std::string part = stem + split_ending(number, count);
    auto file = GgufFile::open(path.parent_path() / part, part);
    if (!file.ok()) {
      error.problems.insert(error.problems.end(), file.error().problems.begin(), file.error().problems.end());
      continue;
    }
    model.files.push_back(std::make_shared<const GgufFile>(*std::move(file)));
    if (integer_or(*model.files.back(), kSplitNumberKey, -1) != number - 1)
      error.problems.push_back(part + ": key \"split.no\" is not " + std::to_string(number - 1));
    for (const TensorEntry& entry : model.files.back()->tensors()) {
      if (!seen.insert(entry.name).second)
        error.problems.push_back(part + ": tensor " + entry.name + " is in another file of the model too");
    }
  }
  if (!error.problems.empty()) return error;
  return model;
}

}  // namespace model
