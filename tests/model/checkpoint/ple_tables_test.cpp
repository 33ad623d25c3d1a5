#include <gmock/gmock.h>
#include <sys/mman.h>

#include "model/checkpoint/ple_tables.h"
#include "tests/model/checkpoint/loaded_model.h"
#include "tests/model/checkpoint/test_gguf.h"
#include "tests/model/ple_store/larger_tables.h"

namespace model {
namespace {

using namespace testing_checkpoint;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::LargerTables;

/// The share of a file's bytes from `first` on that lie in the page cache.
double cached_share(const fs::path& path, std::int64_t first) {
  const auto mapped = *MappedFile::open(path);
  std::vector<unsigned char> pages(static_cast<std::size_t>((mapped.size() + 4095) / 4096));
  EXPECT_EQ(
      ::mincore(const_cast<std::byte*>(mapped.base()), static_cast<std::size_t>(mapped.size()), pages.data()),
      0);
  const auto from = pages.begin() + first / 4096;
  return static_cast<double>(
             std::count_if(from, pages.end(), [](unsigned char page) { return (page & 1) != 0; })) /
         static_cast<double>(pages.end() - from);
}
void leave_the_cache(const fs::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY);
  ::fsync(file);
  ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  ::close(file);
}

gpu::Bytes held(const ModelWeights& weights) {
  gpu::Bytes bytes;
  for (const auto& buffer : weights.storage) bytes += buffer.size();
  return bytes;
}

TEST(PleTables, ThatStayInTheirFilesAreNotRead) {
  const LargerTables model("F32", 60'000);
  const std::int64_t tables = 2 * std::int64_t{8} * 60'000 * 8 * 4;  // and some primes more
  const std::int64_t first = static_cast<std::int64_t>(fs::file_size(model.file_path())) - tables;
  leave_the_cache(model.file_path());
  if (cached_share(model.file_path(), first) > 0.1) GTEST_SKIP() << "pages do not leave the cache here";
  const auto stored = load(model.folder(), LoadFormat::automatic, std::nullopt, PleTables::stored);
  ASSERT_THAT(stored->problems, ElementsAre());
  EXPECT_LT(cached_share(model.file_path(), first), 0.4);  // what the system read ahead
  const auto resident = load(model.folder());
  EXPECT_GT(cached_share(model.file_path(), first), 0.9);
  EXPECT_GE((held(resident->weights) - held(stored->weights)).n, tables);
}

TEST(PleTables, ThatStayInTheirFilesSayWhereEachRowLies) {
  for (const char* dtype : {"F32", "BF16", "F8_E4M3"}) {
    SCOPED_TRACE(dtype);
    const LargerTables model(dtype);
    const auto stored = load(model.folder(), LoadFormat::automatic, std::nullopt, PleTables::stored);
    ASSERT_THAT(stored->problems, ElementsAre());
    const auto resident = load(model.folder());
    const std::string file = read_file(model.file_path());
    for (const std::size_t layer : {1, 5}) {
      const PleWeights& weights = *stored->weights.layers[layer].ple;
      EXPECT_EQ(weights.table.matrix.base, nullptr);
      const StoredTable& table = *weights.stored;
      EXPECT_EQ(table.parts.size(), 4U);
      const auto expected = values(resident->weights.layers[layer].ple->table);
      ASSERT_EQ(expected.size(), static_cast<std::size_t>(table.rows * table.dim));
      for (std::int64_t row = 0; row < table.rows; row += 97) {
        const auto place = table.place_of(row);
        EXPECT_EQ(table.files.at(static_cast<std::size_t>(place.file)), model.file_path());
        const auto* bytes = reinterpret_cast<const std::byte*>(file.data()) + place.offset;
        const auto at = static_cast<std::size_t>(row * table.dim);
        for (std::size_t c = 0; c < 8; ++c) {
          const float value = table.type == gpu::DType::f8_e4m3
                                  ? widen(reinterpret_cast<const std::byte*>(&scaled_e4m3(
                                              table.scale)[std::to_integer<std::size_t>(bytes[c])]),
                                          gpu::DType::bf16, 1)[0]
                                  : widen(bytes, table.type, 8)[c];
          ASSERT_EQ(value, expected[at + c]) << row;
        }
      }
      EXPECT_EQ(table.scale, table.type == gpu::DType::f8_e4m3 ? LargerTables::kScale : 1.0F);
    }
  }
}

TEST(PleTables, OfFp8BecomeBf16AndThePlanKnowsIt) {
  const LargerTables model("F8_E4M3");
  const auto loaded = load(model.folder());
  ASSERT_THAT(loaded->problems, ElementsAre());
  const auto& table = loaded->weights.layers[1].ple->table;
  EXPECT_EQ(table.matrix.dtype, gpu::DType::bf16);
  const auto facts = ple_table_facts(loaded->folder, LoadFormat::automatic, std::nullopt);
  ASSERT_TRUE(facts.has_value());
  EXPECT_EQ(facts->row_bytes.n, 8);
  EXPECT_EQ(facts->device_bytes.n, 2 * facts->file_bytes.n);
  EXPECT_EQ(facts->not_readable, "");
  EXPECT_EQ(**device_weight_bytes(loaded->folder, LoadFormat::automatic, std::nullopt),
            *checkpoint_bytes(loaded->folder) + facts->file_bytes);
  const auto wide = load(model.folder(), LoadFormat::automatic, gpu::DType::f32);
  EXPECT_EQ(values(wide->weights.layers[1].ple->table), values(table));
}

TEST(PleTables, AScaleBelongsToFp8AndIsANumberAboveNought) {
  const std::string at = "model.layers.1.ple.ple_embedding.ngram_embedding.weight_scale";
  const LargerTables eight("F8_E4M3"), wide("BF16");
  const auto problems = [&](const LargerTables& model, auto change) {
    ChangedModel changed(TestFile::read(model.file_path(), TestFile::Data::all),
                         nlohmann::json::parse(read_file(fs::path(model.folder()) / "config.json")));
    change(changed.file);
    return changed.problems();
  };
  const auto bf16 = [](float value) {
    const gpu::bf16 narrow = narrow_to_bf16(value);
    return std::string(reinterpret_cast<const char*>(&narrow), sizeof narrow);
  };
  EXPECT_THAT(
      problems(eight, [&](TestFile& file) { file.drop(at); }),
      ::testing::Each(AllOf(HasSubstr("shard_"), HasSubstr("is f8_e4m3, f32, f16 or bf16 is needed"))));
  for (const float wrong : {0.0F, -1.0F, std::numeric_limits<float>::infinity(), std::nanf("")})
    EXPECT_THAT(problems(eight, [&](TestFile& file) { file.find(at).data = bf16(wrong); }),
                ElementsAre(AllOf(HasSubstr(at), HasSubstr("a number above 0 is needed"))));
  EXPECT_THAT(problems(eight,
                       [&](TestFile& file) {
                         file.find(at) = {at, "BF16", {2}, ""};
                       }),
              ElementsAre(AllOf(HasSubstr(at), HasSubstr("has shape [2]"))));
  EXPECT_THAT(problems(wide,
                       [&](TestFile& file) {
                         file.tensors.push_back({at, "BF16", {1}, bf16(1.0F)});
                       }),
              ElementsAre(AllOf(HasSubstr(at), HasSubstr("which is bf16; f8_e4m3 is needed"))));
  EXPECT_THAT(problems(wide,
                       [&](TestFile& file) {
                         auto& head = file.find("lm_head.weight");
                         head = {head.name, "F8_E4M3", head.shape, ""};
                       }),
              ElementsAre(HasSubstr("lm_head.weight is f8_e4m3, f32, f16 or bf16 is needed")));
}

TEST(PleTables, OfQuantisedFilesAndOfNoFilesCannotBeReadRowByRow) {
  const auto facts = [](const fs::path& path, LoadFormat format) {
    return *ple_table_facts(*open_model_folder(path), format, std::nullopt);
  };
  TempFolder folder;
  write_file(folder.path() / "x.gguf", testing::GgufBytes()
                                           .start(1, 1)
                                           .key("general.architecture", 8)
                                           .text("x")
                                           .tensor("table", {32, 4}, 8, 0)
                                           .data(4 * 34)
                                           .bytes());
  ModelWeights weights;
  weights.layers.resize(1);
  WeightMap map;
  map.weights.push_back({WeightSpec::Storage::as_stored,
                         4,
                         32,
                         {{"table", {4, 32}, 0, 4}},
                         &weights.layers[0].ple.emplace().table,
                         {}});
  const auto checkpoint = Checkpoint::of(*open_gguf(folder.path() / "x.gguf"));
  const auto quantised = *ple_table_facts(map, weights, checkpoint, std::nullopt);
  EXPECT_EQ(quantised.not_readable,
            "x.gguf holds table as q8_0, and rows are read as f32, f16, bf16 or f8_e4m3");
  EXPECT_EQ(quantised.device_bytes.n, 4 * 34);
  EXPECT_EQ(facts(kFixtures / "gguf" / "tiny-qwen4_exp-q8_0.gguf", LoadFormat::automatic).not_readable, "");
  EXPECT_THAT(facts(kFixtures / "tiny-qwen4_exp", LoadFormat::dummy).not_readable,
              HasSubstr("--load-format dummy"));
  EXPECT_FALSE(
      ple_table_facts(*open_model_folder(kFixtures / "tiny-llama"), LoadFormat::automatic, std::nullopt));
  EXPECT_THAT(
      load(kFixtures / "tiny-qwen4_exp", LoadFormat::dummy, std::nullopt, PleTables::stored)->problems,
      ElementsAre(HasSubstr("--load-format dummy")));
}

}  // namespace
}  // namespace model
