#include "bench/rows/rows_model.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "bench/step/step_driver.h"
#include "model/checkpoint/weight_map.h"
#include "model/checkpoint/widen.h"
#include "model/text/json_escape.h"

namespace bench {
namespace {

constexpr int kHeads = 16, kRowDim = 160;
constexpr std::size_t kPieceValues = 1 << 20;

/// The value of a key of a flat JSON object, replaced.
void set_number(std::string& json, const std::string& key, std::int64_t value) {
  const auto at = json.find('"' + key + "\": ");
  if (at == std::string::npos) fail({"config.json has no " + key});
  const auto first = at + key.size() + 4;
  json.replace(first, json.find_first_of(",\n", first) - first, std::to_string(value));
}

struct Tensor {
  std::string name, type;
  std::vector<std::int64_t> shape;
  model::DummyValues values;
  const std::vector<std::int64_t>* numbers = nullptr;  // i64
  std::int64_t elements() const {
    std::int64_t count = 1;
    for (const std::int64_t dimension : shape) count *= dimension;
    return count;
  }
  std::int64_t bytes() const { return elements() * (numbers == nullptr ? 2 : 8); }
};

std::vector<Tensor> tensors_of(const model::WeightMap& map) {
  std::vector<Tensor> tensors;
  for (const auto& weight : map.weights)
    for (const auto& part : weight.parts)
      if (part.first_file_row == 0) tensors.push_back({part.name, "BF16", part.shape, weight.dummy, nullptr});
  for (const auto& buffer : map.hash_buffers)
    tensors.push_back({buffer.name, "I64", {std::ssize(*buffer.expected)}, {}, buffer.expected});
  return tensors;
}

std::string header_of(const std::vector<Tensor>& tensors) {
  std::string header = "{";
  std::int64_t end = 0;
  for (const Tensor& tensor : tensors) {
    if (header.size() > 1) header += ',';
    model::text::append_json_string(header, tensor.name);
    header += ":{\"dtype\":\"" + tensor.type + "\",\"shape\":[";
    for (std::size_t i = 0; i < tensor.shape.size(); ++i)
      header += (i > 0 ? "," : "") + std::to_string(tensor.shape[i]);
    header +=
        "],\"data_offsets\":[" + std::to_string(end) + ',' + std::to_string(end + tensor.bytes()) + "]}";
    end += tensor.bytes();
  }
  return header + '}';
}

/// Uniform round the center, with the deviation that dummy weights have.
void write_values(std::ofstream& file, const Tensor& tensor, std::uint64_t& state) {
  std::vector<gpu::bf16> piece;
  for (std::int64_t left = tensor.elements(); left > 0; left -= std::ssize(piece)) {
    piece.resize(static_cast<std::size_t>(std::min<std::int64_t>(left, kPieceValues)));
    for (gpu::bf16& value : piece) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      const float uniform = static_cast<float>(state >> 40) * 0x1p-23F - 1.0F;
      value =
          model::narrow_to_bf16(tensor.values.center + tensor.values.deviation * std::sqrt(3.0F) * uniform);
    }
    file.write(reinterpret_cast<const char*>(piece.data()),
               static_cast<std::streamsize>(piece.size() * sizeof(gpu::bf16)));
  }
}

}  // namespace

void write_rows_model(const std::filesystem::path& folder, std::int64_t table_bytes) {
  std::ifstream mini(ATLAS_MODELS "/atlas-mini/config.json");
  std::ostringstream text;
  text << mini.rdbuf();
  std::string json = text.str();
  set_number(json, "ple_embed_dim", kHeads * kRowDim);
  set_number(json, "ngram_vocab_size_base", table_bytes / (kHeads * kRowDim * 2));
  const auto config = model::parse_model_config(json, "config.json");
  if (!config.ok()) fail(config.error().problems);
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.json") << json;

  model::ModelWeights skeleton;
  const auto tensors = tensors_of(model::map_weights(*config, model::published_names(), skeleton));
  std::ofstream file(folder / "model.safetensors", std::ios::binary);
  const std::string header = header_of(tensors);
  const std::uint64_t length = header.size();
  file.write(reinterpret_cast<const char*>(&length), sizeof length) << header;
  std::uint64_t state = 1;
  for (const Tensor& tensor : tensors) {
    if (tensor.numbers != nullptr) {
      file.write(reinterpret_cast<const char*>(tensor.numbers->data()), tensor.bytes());
    } else {
      write_values(file, tensor, state);
    }
  }
  file.close();
  if (!file) fail({folder.string() + ": cannot be written"});
}

}  // namespace bench
