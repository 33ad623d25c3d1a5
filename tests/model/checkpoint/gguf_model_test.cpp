#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/loader.h"
#include "model/checkpoint/widen.h"
#include "test_gguf.h"

namespace model {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using testing::GgufBytes;
using ::testing::HasSubstr;

const fs::path kFixtures = ATLAS_FIXTURES;
const fs::path kGguf = kFixtures / "gguf";

struct LoadedModel {
  std::shared_ptr<gpu::Device> device = gpu::make_host_device(1);
  std::unique_ptr<gpu::Stream> stream = *device->create_stream();
  ModelFolder folder;
  ModelWeights weights;
  std::vector<std::string> problems, notices;
};

std::unique_ptr<LoadedModel> load(const fs::path& path, std::optional<gpu::DType> matrices = std::nullopt) {
  auto loaded = std::make_unique<LoadedModel>();
  auto folder = open_model_folder(path);
  if (!folder.ok()) {
    loaded->problems = folder.error().problems;
    return loaded;
  }
  loaded->folder = *std::move(folder);
  LoadProgress progress;
  progress.notice = [&](std::string_view line) { loaded->notices.emplace_back(line); };
  auto weights = load_weights(loaded->folder, LoadFormat::automatic, *loaded->device, *loaded->stream,
                              progress, matrices);
  if (weights.ok()) {
    loaded->weights = *std::move(weights);
  } else {
    loaded->problems = weights.error().problems;
  }
  return loaded;
}

std::vector<float> values(const Weight& weight) {
  if (!weight.is_quantized()) {
    const gpu::ConstMatrix& m = weight.matrix;
    return widen(m.base, m.dtype, m.rows.n * m.cols.n);
  }
  std::vector<float> all(static_cast<std::size_t>(weight.rows().n * weight.cols().n));
  for (std::int64_t r = 0; r < weight.rows().n; ++r)
    kernels::dequantize_row(weight.quantized, {r}, all.data() + r * weight.cols().n);
  return all;
}
std::vector<float> values(gpu::ConstVector v) { return widen(v.base, v.dtype, v.size.n); }

/// Largest difference over the largest magnitude.
double difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return 1e9;
  double most = 0.0, scale = 1e-30;
  for (std::size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::abs(static_cast<double>(a[i]) - b[i]));
    scale = std::max(scale, std::abs(static_cast<double>(b[i])));
  }
  return most / scale;
}

/// A device whose matrices are of one floating type.
TEST(GgufModel, HalfPrecisionFilesServeEveryDeviceAndQuantisedOnesAreRefusedByType) {
  for (const char* name : {"tiny-llama-f16.gguf", "tiny-llama-bf16.gguf"}) {
    const auto stored = load(kGguf / name);
    const auto loaded = load(kGguf / name, gpu::DType::f32);
    ASSERT_THAT(loaded->problems, ElementsAre());
    EXPECT_EQ(loaded->weights.head.matrix.dtype, gpu::DType::f32);
    EXPECT_EQ(values(loaded->weights.head), values(stored->weights.head));
  }
  const auto refused = load(kGguf / "tiny-llama-q4_0.gguf", gpu::DType::bf16);
  EXPECT_THAT(refused->problems,
              ElementsAre("--backend cuda: tiny-llama-q4_0.gguf holds q4_0 weights, which run on the CPU "
                          "backend only (--backend cpu)"));
  const auto folder = open_model_folder(kGguf / "tiny-llama-q4_0.gguf");
  const auto told = device_weight_bytes(*folder, LoadFormat::automatic, gpu::DType::bf16);
  ASSERT_FALSE(told.ok()) << "known before anything is loaded";
  EXPECT_EQ(told.error().problems, refused->problems);
  EXPECT_TRUE(device_weight_bytes(*folder, LoadFormat::automatic, std::nullopt).ok());
}

TEST(GgufModel, EveryFormatDecodesBitForBitAsTheReferenceDoes) {
  const auto model = open_gguf(kGguf / "formats.gguf");
  ASSERT_TRUE(model.ok()) << model.error().problems.front();
  const TensorFile& file = *model->files.front();
  int formats = 0;
  for (const TensorEntry& entry : file.tensors()) {
    const TensorEntry* expected = model->find(entry.name + ".expected");
    if (expected == nullptr) continue;
    ++formats;
    std::vector<float> got(static_cast<std::size_t>(expected->bytes) / sizeof(float)), want(got.size());
    std::memcpy(want.data(), file.bytes(*expected), static_cast<std::size_t>(expected->bytes));
    if (entry.type.quantized) {
      kernels::dequantize(*entry.type.quantized, file.bytes(entry), {std::ssize(got)}, got.data());
    } else {
      got = widen(file.bytes(entry), entry.type.dtype, std::ssize(got));
    }
    EXPECT_EQ(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)), 0) << entry.name;
  }
  EXPECT_EQ(formats, 11);
}

TEST(GgufModel, TheConfigIsThatOfTheFolderTheFileWasMadeFrom) {
  for (const auto& [file, folder] :
       {std::pair("tiny-llama-q8_0.gguf", "tiny-llama"), std::pair("tiny-qwen3-q8_0.gguf", "tiny-qwen3"),
        std::pair("tiny-qwen3_next-q8_0.gguf", "tiny-qwen3_next"),
        std::pair("tiny-qwen3_5-q8_0.gguf", "tiny-qwen3_5"),
        std::pair("tiny-qwen4_exp-q8_0.gguf", "tiny-qwen4_exp")}) {
    SCOPED_TRACE(file);
    const auto got = open_model_folder(kGguf / file), want = open_model_folder(kFixtures / folder);
    ASSERT_TRUE(got.ok()) << got.error().problems.front();
    ASSERT_TRUE(want.ok());
    const ModelConfig &a = got->config, &b = want->config;
    EXPECT_EQ(a.family, b.family);
    EXPECT_EQ(a.vocab_size, b.vocab_size);
    EXPECT_EQ(a.hidden_size, b.hidden_size);
    EXPECT_EQ(a.layers, b.layers);
    EXPECT_EQ(a.num_heads, b.num_heads);
    EXPECT_EQ(a.num_kv_heads, b.num_kv_heads);
    EXPECT_EQ(a.head_dim, b.head_dim);
    EXPECT_EQ(a.intermediate_size, b.intermediate_size);
    EXPECT_EQ(a.max_positions, b.max_positions);
    EXPECT_EQ(a.rms_norm_eps, b.rms_norm_eps);
    EXPECT_EQ(a.rope.theta, b.rope.theta);
    EXPECT_EQ(a.rope.rotary_dim, b.rope.rotary_dim);
    EXPECT_EQ(a.tied_embeddings, b.tied_embeddings);
    EXPECT_EQ(a.eos, b.eos);
    EXPECT_EQ(a.gdn.has_value(), b.gdn.has_value());
    if (a.gdn && b.gdn) {
      EXPECT_EQ(a.gdn->output_gate, b.gdn->output_gate);
    }
    EXPECT_EQ(a.moe ? a.moe->top_k : 0, b.moe ? b.moe->top_k : 0);
    EXPECT_EQ(a.moe ? a.moe->renormalize : false, b.moe ? b.moe->renormalize : false);
    EXPECT_EQ(a.indexer ? a.indexer->bound() : 0, b.indexer ? b.indexer->bound() : 0);
    const auto table_a = make_rope_table(a.rope), table_b = make_rope_table(b.rope);
    EXPECT_LE(difference(table_a.inv_freq, table_b.inv_freq), 1e-6);
  }
}

TEST(GgufModel, RowsOfQueriesAndKeysComeBackInTheOrderOfTheReference) {
  const auto got = load(kGguf / "tiny-llama-f16.gguf"), want = load(kFixtures / "tiny-llama");
  ASSERT_THAT(got->problems, ElementsAre());
  for (std::size_t i = 0; i < got->weights.layers.size(); ++i) {
    const auto &a = *got->weights.layers[i].attention, &b = *want->weights.layers[i].attention;
    EXPECT_LE(difference(values(a.q), values(b.q)), 1e-3);
    EXPECT_LE(difference(values(a.k), values(b.k)), 1e-3);
    EXPECT_LE(difference(values(a.v), values(b.v)), 1e-3);
  }
}

TEST(GgufModel, QuantisedWeightsStayQuantisedAndStandForTheReferencesNumbers) {
  const std::map<std::string, double> files{{"q8_0", 0.01}, {"q5_1", 0.05}, {"q5_0", 0.07}, {"q4_1", 0.1},
                                            {"q4_0", 0.15}, {"bf16", 0.01}, {"f16", 1e-3}};
  const auto want = load(kFixtures / "tiny-llama");
  for (const auto& [type, tolerance] : files) {
    SCOPED_TRACE(type);
    const auto got = load(kGguf / ("tiny-llama-" + type + ".gguf"));
    ASSERT_THAT(got->problems, ElementsAre());
    EXPECT_LE(difference(values(got->weights.embedding), values(want->weights.embedding)), tolerance);
    EXPECT_LE(difference(values(got->weights.head), values(want->weights.head)), tolerance);
    EXPECT_EQ(values(got->weights.final_norm), values(want->weights.final_norm));
    for (std::size_t i = 0; i < got->weights.layers.size(); ++i) {
      const LayerWeights &a = got->weights.layers[i], &b = want->weights.layers[i];
      EXPECT_EQ(a.mlp->down.is_quantized(), type[0] == 'q');
      for (const auto& [x, y] :
           {std::pair(&a.attention->q, &b.attention->q), std::pair(&a.attention->k, &b.attention->k),
            std::pair(&a.attention->o, &b.attention->o), std::pair(&a.mlp->gate, &b.mlp->gate),
            std::pair(&a.mlp->up, &b.mlp->up), std::pair(&a.mlp->down, &b.mlp->down)})
        EXPECT_LE(difference(values(*x), values(*y)), tolerance);
      EXPECT_EQ(values(a.input_norm), values(b.input_norm));
    }
  }
}

TEST(GgufModel, ExpertsIndexerAndTableAreJoinedAsTheReferenceHasThem) {
  const auto got = load(kGguf / "tiny-qwen4_exp-q8_0.gguf"), want = load(kFixtures / "tiny-qwen4_exp");
  ASSERT_THAT(got->problems, ElementsAre());
  for (std::size_t i = 0; i < got->weights.layers.size(); ++i) {
    const LayerWeights &a = got->weights.layers[i], &b = want->weights.layers[i];
    EXPECT_LE(difference(values(a.moe->gate_up), values(b.moe->gate_up)), 0.01);
    EXPECT_LE(difference(values(a.moe->down), values(b.moe->down)), 0.01);
    EXPECT_LE(difference(values(a.moe->shared_gate), values(b.moe->shared_gate)), 0.01);
    if (a.ple) {
      EXPECT_LE(difference(values(a.ple->table), values(b.ple->table)), 0.01);
    }
    if (a.attention) {
      EXPECT_LE(difference(values(a.attention->indexer->qk), values(b.attention->indexer->qk)), 0.01);
    }
    if (!a.gdn) continue;
    // Value heads in tiled order: head j of the file is head (j % 2) * 2 + j / 2 here; -exp(A_log) is stored.
    const auto rate = values(a.gdn->a_log), a_log = values(b.gdn->a_log);
    for (std::size_t j = 0; j < rate.size(); ++j)
      EXPECT_NEAR(-rate[j], std::exp(a_log[(j % 2) * 2 + j / 2]), 1e-5);
  }
}

TEST(GgufModel, QuantisedLookupTablesKeepTheRowsOfTheFile) {
  const auto loaded = load(kGguf / "tiny-llama-q4_1.gguf");
  EXPECT_EQ(loaded->weights.embedding.quantized.layout, kernels::QuantizedMatrix::Layout::file);
  EXPECT_EQ(loaded->weights.head.quantized.layout, kernels::QuantizedMatrix::Layout::packed);
}

/// A file in a folder of its own, gone with the test.
class WrittenFile {
 public:
  explicit WrittenFile(const std::string& bytes, const char* name = "model.gguf") {
    std::string folder = (fs::temp_directory_path() / "atlas-gguf-XXXXXX").string();
    folder_ = mkdtemp(folder.data());
    add(bytes, name);
  }
  WrittenFile(const WrittenFile&) = delete;
  ~WrittenFile() { fs::remove_all(folder_); }
  void add(const std::string& bytes, const char* name) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }
  fs::path path(const char* name = "model.gguf") const { return folder_ / name; }

 private:
  fs::path folder_;
};

std::string bytes_of(const char* fixture) {
  std::ifstream in(kGguf / fixture, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The first occurrence replaced by as many bytes.
std::string replaced(std::string bytes, std::string_view from, std::string_view to) {
  EXPECT_EQ(from.size(), to.size());
  const auto at = bytes.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return bytes.replace(at, from.size(), to);
}
std::vector<std::string> problems_of(const std::string& bytes) {
  return load(WrittenFile(bytes).path())->problems;
}

TEST(GgufModel, AnUnknownArchitectureIsRefusedByName) {
  EXPECT_THAT(
      problems_of(replaced(bytes_of("tiny-qwen3-q8_0.gguf"), "qwen3", "gemma")),
      ElementsAre(HasSubstr("model.gguf: key \"general.architecture\" is \"gemma\"; supported are llama")));
}

TEST(GgufModel, AMissingKeyIsNamed) {
  const auto problems =
      problems_of(replaced(bytes_of("tiny-llama-q8_0.gguf"), "llama.context_length", "llama.context_lenght"));
  EXPECT_THAT(problems, ElementsAre("model.gguf: key \"llama.context_length\" is missing"));
}

TEST(GgufModel, AValueOutOfRangeNamesTheKeyOfTheFile) {
  std::string bytes = bytes_of("tiny-llama-q8_0.gguf");
  const std::string key = "llama.embedding_length";
  bytes[bytes.find(key) + key.size() + sizeof(std::uint32_t)] = '\3';  // 64 → 3
  const auto problems = problems_of(bytes);
  ASSERT_FALSE(problems.empty());
  EXPECT_THAT(problems.front(), HasSubstr("key \"llama.embedding_length\" (hidden_size) is 3"));
}

TEST(GgufModel, MissingAndSurplusTensorsAreNamedAsTheFileNamesThem) {
  const auto problems =
      problems_of(replaced(bytes_of("tiny-llama-q8_0.gguf"), "blk.1.ffn_up", "blk.1.ffn_xx"));
  EXPECT_THAT(problems, ElementsAre(HasSubstr("tensor blk.1.ffn_up.weight is missing"),
                                    HasSubstr("tensor blk.1.ffn_xx.weight belongs to nothing")));
}

TEST(GgufModel, AnotherHashIsRefused) {
  std::string bytes = bytes_of("tiny-qwen4_exp-q8_0.gguf");
  const std::string key = "qwen4exp.ple.layer_multipliers";
  bytes[bytes.find(key) + key.size() + 4 + 4 + 8] ^= 2;
  EXPECT_THAT(problems_of(bytes), ElementsAre(HasSubstr("key \"qwen4exp.ple.layer_multipliers\" holds")));
}

TEST(GgufModel, BlocksBehindTheLastLayerAreIgnoredByName) {
  std::string bytes = bytes_of("tiny-llama-q8_0.gguf");
  const std::string key = "llama.block_count";
  bytes[bytes.find(key) + key.size() + sizeof(std::uint32_t)] = '\3';  // of 4: the last block is left over
  const auto loaded = load(WrittenFile(bytes).path());
  EXPECT_THAT(loaded->problems, ElementsAre());
  EXPECT_EQ(loaded->weights.layers.size(), 3U);
  EXPECT_THAT(loaded->notices, ::testing::Contains(HasSubstr("draft layers")));
}

TEST(GgufModel, TheSecondFileOfASplitModelAloneIsRefused) {
  GgufBytes file;
  file.start(0, 2).key("split.no", 2).number(std::uint16_t{1}).key("split.count", 2).number(std::uint16_t{2});
  const WrittenFile written(file.data(32).bytes(), "m-00002-of-00002.gguf");
  EXPECT_THAT(load(written.path("m-00002-of-00002.gguf"))->problems,
              ElementsAre(HasSubstr("MODEL has to be the first of them")));
}

TEST(GgufModel, ASplitModelIsReadFromAllItsFiles) {
  GgufBytes first, second;
  first.start(1, 2)
      .key("split.no", 2)
      .number(std::uint16_t{0})
      .key("split.count", 2)
      .number(std::uint16_t{2});
  first.tensor("a", {4}, 0, 0).data(16);
  second.start(1, 2)
      .key("split.no", 2)
      .number(std::uint16_t{1})
      .key("split.count", 2)
      .number(std::uint16_t{2});
  second.tensor("b", {4}, 0, 0).data(16);
  const WrittenFile written(first.bytes(), "m-00001-of-00002.gguf");
  EXPECT_THAT(open_gguf(written.path("m-00001-of-00002.gguf")).error().problems,
              ElementsAre(HasSubstr("m-00002-of-00002.gguf: No such file")));
  written.add(second.bytes(), "m-00002-of-00002.gguf");
  const auto model = open_gguf(written.path("m-00001-of-00002.gguf"));
  ASSERT_TRUE(model.ok()) << model.error().problems.front();
  EXPECT_EQ(Checkpoint::of(*model).tensors().size(), 2U);
}

}  // namespace
}  // namespace model
