#include "model/checkpoint/weight_check.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

namespace model {
namespace {

using gpu::DType;
using Location = Checkpoint::Location;

bool is_floating(DType dtype) { return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16; }

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

class Checker {
 public:
  Checker(const WeightMap& map, const Checkpoint& checkpoint, const ModelConfig& config)
      : map_(map), checkpoint_(checkpoint), config_(config) {}

  Result<Leftovers, LoadError> run() {
    for (const WeightSpec& weight : map_.weights) check_weight(weight);
    for (const HashBuffer& buffer : map_.hash_buffers) check_hash(buffer);
    Leftovers leftovers = check_surplus();
    if (!error_.problems.empty()) return error_;
    return leftovers;
  }

 private:
  /// Once each: a tensor may be held against the map as many times as it has parts.
  void problem(std::string_view file, std::string_view tensor, const std::string& what) {
    std::string line = std::string(file) + ": tensor " + std::string(tensor) + " " + what;
    if (told_.insert(line).second) error_.problems.push_back(std::move(line));
  }

  /// The tensor with its shape, or null with a problem.
  const Location* find(const std::string& name, const std::vector<std::int64_t>& shape) {
    known_.insert(name);
    const auto found = checkpoint_.tensors().find(name);
    if (found == checkpoint_.tensors().end()) {
      problem(checkpoint_.directory(), name,
              "is missing; the config wants it with shape " + to_string(shape));
      return nullptr;
    }
    if (found->second.entry->shape != shape) {
      problem(
          found->second.file->name(), name,
          "has shape " + to_string(found->second.entry->shape) + ", the config gives " + to_string(shape));
      return nullptr;
    }
    return &found->second;
  }

  void check_weight(const WeightSpec& weight) {
    std::vector<const Location*> parts;
    std::map<DType, int> counts;
    for (const TensorPart& part : weight.parts) {
      const Location* at = find(part.name, part.shape);
      if (at == nullptr) continue;
      const DType dtype = at->entry->dtype;
      if (is_floating(dtype)) {
        parts.push_back(at);
        ++counts[dtype];
      } else {
        problem(at->file->name(), part.name,
                "is " + std::string(gpu::to_string(dtype)) + ", f32, f16 or bf16 is needed");
      }
    }
    if (counts.size() <= 1) return;
    // One odd shard among many is one problem: the common dtype is taken for the intended one.
    const DType common = std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) {
                           return a.second < b.second;
                         })->first;
    for (const Location* at : parts) {
      if (at->entry->dtype == common) continue;
      problem(at->file->name(), at->entry->name,
              "is " + std::string(gpu::to_string(at->entry->dtype)) +
                  ", other parts of the same weight are " + std::string(gpu::to_string(common)));
    }
  }

  void check_hash(const HashBuffer& buffer) {
    const std::vector<std::int64_t>& expected = *buffer.expected;
    const Location* at = find(buffer.name, {static_cast<std::int64_t>(expected.size())});
    if (at == nullptr) return;
    if (at->entry->dtype != DType::i64) {
      problem(at->file->name(), buffer.name,
              "is " + std::string(gpu::to_string(at->entry->dtype)) + ", i64 is needed");
      return;
    }
    std::vector<std::int64_t> values(expected.size());
    std::memcpy(values.data(), at->file->bytes(*at->entry), static_cast<std::size_t>(at->entry->bytes));
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i] == expected[i]) continue;
      problem(at->file->name(), buffer.name,
              "holds " + std::to_string(values[i]) + " at " + std::to_string(i) + ", the config gives " +
                  std::to_string(expected[i]));
      return;
    }
  }

  /// The kind under which a tensor that no weight wants is ignored, or nothing.
  std::optional<std::string> ignored_as(const std::string& name) const {
    if (name.find("visual.") != std::string::npos) return "*visual.*";
    if (ends_with(name, "rotary_emb.inv_freq")) return "*rotary_emb.inv_freq";
    if (config_.tied_embeddings && name == "lm_head.weight")
      return "lm_head.weight (the embedding is the head)";
    for (const std::string& inject : map_.final_mixer_injects) {
      if (name == inject) return "block_inject_weight of a final mixer";
    }
    return std::nullopt;
  }

  Leftovers check_surplus() {
    std::map<std::string, std::pair<int, std::string>> ignored;  // kind → how many, the first
    for (const auto& [name, at] : checkpoint_.tensors()) {
      if (known_.count(name) != 0) continue;
      if (const auto kind = ignored_as(name)) {
        auto& [count, first] = ignored.emplace(*kind, std::pair(0, name)).first->second;
        ++count;
      } else {
        problem(at.file->name(), name, "belongs to nothing that the config describes");
      }
    }
    Leftovers leftovers;
    for (const auto& [kind, found] : ignored) {
      leftovers.ignored.push_back("ignored " + kind + ": " + std::to_string(found.first) + " tensor" +
                                  (found.first == 1 ? ", " : "s, first ") + found.second);
    }
    return leftovers;
  }

  const WeightMap& map_;
  const Checkpoint& checkpoint_;
  const ModelConfig& config_;
  std::set<std::string_view> known_;
  std::set<std::string> told_;
  LoadError error_;
};

}  // namespace

Result<Leftovers, LoadError> check_weights(const WeightMap& map, const Checkpoint& checkpoint,
                                           const ModelConfig& config) {
  return Checker(map, checkpoint, config).run();
}

}  // namespace model
