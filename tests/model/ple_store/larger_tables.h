#pragma once

#include <algorithm>
#include <random>

#include "model/arch/ple_constants.h"
#include "model/checkpoint/loader.h"
#include "model/checkpoint/widen.h"
#include "tests/fixture_path.h"
#include "tests/model/checkpoint/test_checkpoint.h"

namespace model::testing {

/// tiny-qwen4_exp with n-gram tables of 8 * `rows_per_head` rows a layer and some, of random numbers of a
/// type, in shards: large enough that a cache holds few of them and that rows lie across blocks.
class LargerTables {
 public:
  static constexpr float kScale = 0.00390625F * 3;  // exact in bf16

  explicit LargerTables(const std::string& dtype = "F32", std::int64_t rows_per_head = 3000) {
    using namespace testing_checkpoint;
    const fs::path from = tests::fixture_path("tiny-qwen4_exp");
    auto json = nlohmann::json::parse(read_file(from / "config.json"));
    json["ngram_vocab_size_base"] = rows_per_head;
    write_file(folder_.path() / "config.json", json.dump());
    const auto config = *parse_model_config(json.dump(), "config.json");
    TestFile file = TestFile::read(from / "model.safetensors", TestFile::Data::all);
    std::mt19937 random(23);
    for (std::size_t i = 0; i < config.ple->layers.size(); ++i) {
      const std::string at = "model.layers." + std::to_string(config.ple->layers[i]) + ".ple.ple_embedding.";
      const PleConstants constants =
          derive_ple_constants(*config.ple, config.vocab_size, static_cast<std::int32_t>(i));
      const auto put = [&](const char* name, const std::vector<std::int64_t>& values) {
        file.find(at + name).data.assign(reinterpret_cast<const char*>(values.data()),
                                         values.size() * sizeof(std::int64_t));
      };
      put("layer_multipliers", constants.multipliers);
      put("ngram_heads_vocab_sizes", constants.sizes);
      put("ngram_heads_offsets", constants.offsets);
      const std::int64_t shards = config.ple->split_parts;
      for (std::int64_t shard = 0, left = constants.table_rows; shard < shards; ++shard) {
        TestTensor& tensor = file.find(at + "ngram_embedding.shard_" + std::to_string(shard) + ".weight");
        const std::int64_t rows = std::min(left, (constants.table_rows + shards - 1) / shards);
        tensor.dtype = dtype;
        tensor.shape = {rows, config.ple->head_dim()};
        tensor.data = values(dtype, rows * config.ple->head_dim(), random);
        left -= rows;
      }
      if (dtype == "F8_E4M3") {
        const gpu::bf16 scale = narrow_to_bf16(kScale);
        file.tensors.push_back({at + "ngram_embedding.weight_scale",
                                "BF16",
                                {1},
                                std::string(reinterpret_cast<const char*>(&scale), sizeof scale)});
      }
    }
    std::ranges::stable_sort(file.tensors, {}, [](const TestTensor& tensor) {
      return tensor.name.find("ngram_embedding.shard") != std::string::npos;  // behind everything else
    });
    file.write(file_path());
  }
  std::string folder() const { return folder_.path().string(); }
  std::filesystem::path file_path() const { return folder_.path() / "model.safetensors"; }

 private:
  /// Any byte but those that stand for NaN; numbers of about the size that tables have.
  static std::string values(const std::string& dtype, std::int64_t count, std::mt19937& random) {
    std::string bytes;
    std::normal_distribution<float> bell(0.0F, 0.05F);
    const auto append = [&](auto value) {
      bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    };
    for (std::int64_t i = 0; i < count; ++i) {
      if (dtype == "F32") {
        append(bell(random));
      } else if (dtype == "BF16") {
        append(narrow_to_bf16(bell(random)));
      } else {
        const auto byte = static_cast<unsigned char>(random());
        append(static_cast<unsigned char>((byte & 0x7FU) == 0x7FU ? 0U : byte));
      }
    }
    return bytes;
  }
  testing_checkpoint::TempFolder folder_;
};

}  // namespace model::testing
