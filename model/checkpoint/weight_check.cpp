#include "model/checkpoint/weight_check.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "model/checkpoint/widen.h"

namespace model {
namespace {

using Location = Checkpoint::Location;

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
    std::set<const Location*> parts;
    for (const TensorPart& part : weight.parts) {
      const Location* at = find(part.name, part.shape);
      if (at == nullptr || !parts.insert(at).second) continue;
      const StoredType& type = at->entry->type;
      // What is widened has few numbers and is read one by one.
      const bool fits =
          type.is_weight() && !(type.quantized && weight.storage == WeightSpec::Storage::widened);
      if (fits || (type == StoredType(gpu::DType::f8_e4m3) && !weight.scale.empty())) continue;
      problem(at->file->name(), part.name, "is " + to_string(type) + ", f32, f16 or bf16 is needed");
      parts.erase(at);
    }
    check_scale(weight);
    std::map<std::string, int> counts;
    for (const Location* at : parts) ++counts[to_string(at->entry->type)];
    if (counts.size() <= 1) return;
    // One odd shard among many is one problem: the common type is taken for the intended one.
    const std::string common =
        std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) {
          return a.second < b.second;
        })->first;
    for (const Location* at : parts) {
      const std::string type = to_string(at->entry->type);
      if (type == common) continue;
      problem(at->file->name(), at->entry->name,
              "is " + type + ", other parts of the same weight are " + common);
    }
  }

  /// A scale is there for f8 parts and for no others, and is a number that can scale.
  void check_scale(const WeightSpec& weight) {
    if (weight.scale.empty()) return;
    const Location* at = find(weight.scale, {1});
    if (at == nullptr) return;
    const StoredType& type = at->entry->type;
    if (type != StoredType(gpu::DType::bf16) && type != StoredType(gpu::DType::f32))
      return problem(at->file->name(), weight.scale, "is " + to_string(type) + ", bf16 or f32 is needed");
    const auto part = checkpoint_.tensors().find(weight.parts.front().name);
    if (part != checkpoint_.tensors().end() && part->second.entry->type != StoredType(gpu::DType::f8_e4m3))
      return problem(at->file->name(), weight.scale,
                     "scales " + part->first + ", which is " + to_string(part->second.entry->type) +
                         "; f8_e4m3 is needed");
    const float scale = scale_of(weight, checkpoint_);
    if (!(scale > 0.0F && std::isfinite(scale)))
      problem(at->file->name(), weight.scale, "is " + std::to_string(scale) + ", a number above 0 is needed");
  }

  void check_hash(const HashBuffer& buffer) {
    const std::vector<std::int64_t>& expected = *buffer.expected;
    const Location* at = find(buffer.name, {static_cast<std::int64_t>(expected.size())});
    if (at == nullptr) return;
    if (at->entry->type != StoredType(gpu::DType::i64)) {
      problem(at->file->name(), buffer.name, "is " + to_string(at->entry->type) + ", i64 is needed");
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
    if (name == "rope_freqs.weight") return name + " (read with the config)";
    if (is_draft_block(name)) return "blocks behind the last layer (draft layers)";
    if (config_.tied_embeddings && name == "lm_head.weight")
      return "lm_head.weight (the embedding is the head)";
    for (const std::string& inject : map_.final_mixer_injects) {
      if (name == inject) return "block_inject_weight of a final mixer";
    }
    return std::nullopt;
  }

  /// "blk.N.…" of a GGUF file, N past the model's layers.
  bool is_draft_block(const std::string& name) const {
    constexpr std::string_view prefix = "blk.";
    if (name.compare(0, prefix.size(), prefix) != 0) return false;
    std::size_t block = 0;
    const auto [end, failure] =
        std::from_chars(name.data() + prefix.size(), name.data() + name.size(), block);
    return failure == std::errc() && end != name.data() + name.size() && *end == '.' &&
           block >= config_.layers.size();
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

float scale_of(const WeightSpec& weight, const Checkpoint& checkpoint) {
  if (weight.scale.empty()) return 1.0F;
  const Location& at = checkpoint.tensors().find(weight.scale)->second;
  return widen(at.file->bytes(*at.entry), at.entry->type.dtype, 1).front();
}

Result<Leftovers, LoadError> check_weights(const WeightMap& map, const Checkpoint& checkpoint,
                                           const ModelConfig& config) {
  return Checker(map, checkpoint, config).run();
}

}  // namespace model
