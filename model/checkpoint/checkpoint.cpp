#include "model/checkpoint/checkpoint.h"
#include "model/text/unicode.h"

#include <algorithm>
#include <set>

#include "model/arch/config_reader.h"

namespace model {
namespace {

constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";
constexpr std::int64_t kMaxIndexBytes = 64 << 20;

bool is_plain_file_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.size() <= 255 &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

/// A name from a downloaded file, fit for a log line.
std::string quoted(std::string_view name) { return '"' + text::printable(name.substr(0, 200)) + '"'; }

}  // namespace

Result<std::map<std::string, std::string>, LoadError> parse_shard_index(std::string_view json,
                                                                        std::string_view file) {
  LoadError error;
  const auto problem = [&](const std::string& what) {
    error.problems.push_back(std::string(file) + ": " + what);
  };
  simdjson::dom::parser parser;
  const auto root = parse_object(parser, json, file, error.problems);
  if (!root) return error;
  simdjson::dom::object map;
  if (root->at_key("weight_map").get(map) != simdjson::SUCCESS) {
    problem("weight_map is missing or not an object");
    return error;
  }
  std::map<std::string, std::string> names;
  for (const auto& [tensor, value] : map) {
    std::string_view name;
    if (value.get(name) != simdjson::SUCCESS) {
      problem("tensor " + std::string(tensor) + ": the file is not a string");
    } else if (!is_plain_file_name(name)) {
      problem("tensor " + std::string(tensor) + ": " + quoted(name) +
              " is not a plain file name inside the folder");
    } else if (!names.emplace(tensor, name).second) {
      problem("tensor " + std::string(tensor) + " appears twice");
    }
  }
  if (names.empty() && error.problems.empty()) problem("weight_map names no tensor");
  if (!error.problems.empty()) return error;
  return names;
}

Result<Checkpoint, LoadError> Checkpoint::open(const std::filesystem::path& folder) {
  Checkpoint checkpoint;
  LoadError error;
  std::map<std::string, std::string> index;
  std::set<std::string> names;
  std::error_code unreadable;
  const bool sharded = !std::filesystem::exists(folder / kSingleFile, unreadable) &&
                       std::filesystem::exists(folder / kIndexFile, unreadable);
  checkpoint.directory_ = sharded ? kIndexFile : kSingleFile;
  if (sharded) {
    auto json = read_small_file(folder / kIndexFile, kMaxIndexBytes);
    if (!json.ok()) return std::move(json).error();
    auto parsed = parse_shard_index(*json, kIndexFile);
    if (!parsed.ok()) return std::move(parsed).error();
    index = std::move(parsed).value();
    for (const auto& [tensor, name] : index) names.insert(name);
  } else {
    names.insert(kSingleFile);
  }

  for (const std::string& name : names) {
    auto file = SafetensorsFile::open(folder / name, name);
    if (!file.ok()) {
      for (std::string& problem : file.error().problems) {
        error.problems.push_back(sharded ? std::string(kIndexFile) + " → " + problem : problem);
      }
      continue;
    }
    checkpoint.files_.push_back(std::make_shared<const SafetensorsFile>(std::move(file).value()));
    const TensorFile* opened = checkpoint.files_.back().get();
    for (const TensorEntry& entry : opened->tensors()) {
      if (sharded) {
        const auto listed = index.find(entry.name);
        if (listed == index.end() || listed->second != name) {
          error.problems.push_back(name + ": tensor " + entry.name + " is not listed for this file in " +
                                   kIndexFile);
          continue;
        }
      }
      checkpoint.tensors_.emplace(entry.name, Location{opened, &entry});
    }
  }
  for (const auto& [tensor, name] : index) {
    const bool opened = std::any_of(checkpoint.files_.begin(), checkpoint.files_.end(),
                                    [&name = name](const auto& file) { return file->name() == name; });
    if (opened && !checkpoint.has(tensor)) {
      error.problems.push_back(std::string(kIndexFile) + ": tensor " + tensor + " is not in " + name);
    }
  }
  if (!error.problems.empty()) return error;
  return checkpoint;
}

Checkpoint Checkpoint::of(const GgufModel& model) {
  Checkpoint checkpoint;
  checkpoint.directory_ = model.name();
  for (const auto& file : model.files) {
    checkpoint.files_.push_back(file);
    for (const TensorEntry& entry : file->tensors())
      checkpoint.tensors_.emplace(entry.name, Location{file.get(), &entry});
  }
  return checkpoint;
}

}  // namespace model
