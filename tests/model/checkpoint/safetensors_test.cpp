#include "model/checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "tests/model/checkpoint/test_checkpoint.h"

namespace model {
namespace {

using namespace testing_checkpoint;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(SafetensorsHeader, TensorsOfEveryDtypeAndZeroSizesAreRead) {
  const auto tensors = parse_safetensors_header(
      R"({"__metadata__": {"format": "pt"}, "b": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [4, 16]},
          "a": {"shape": [], "dtype": "F32", "data_offsets": [0, 4]},
          "empty": {"dtype": "F16", "shape": [0, 7], "data_offsets": [16, 16]},
          "i": {"dtype": "I64", "shape": [1], "data_offsets": [16, 24]}}   )",
      24, "f");
  ASSERT_TRUE(tensors.ok()) << testing::PrintToString(tensors.error().problems);
  ASSERT_EQ(tensors->size(), 4U);
  EXPECT_EQ((*tensors)[0].name, "b");
  EXPECT_EQ((*tensors)[0].type, StoredType(gpu::DType::bf16));
  EXPECT_THAT((*tensors)[0].shape, ElementsAre(2, 3));
  EXPECT_EQ((*tensors)[0].offset, 4);
  EXPECT_EQ((*tensors)[0].bytes, 12);
  EXPECT_EQ((*tensors)[3].type, StoredType(gpu::DType::i64));
}

struct Malformed {
  const char* header;
  const char* says;
};

/// Every header but for its fault describes the 8 bytes of data.
TEST(SafetensorsHeader, EveryMalformationIsRefusedNamingTheFile) {
  const std::vector<Malformed> table{
      {"", "not valid JSON"},
      {"[]", "not a JSON object"},
      {"{", "not valid JSON"},
      {"{\"a\xff\": {}}", "not valid JSON"},
      {R"({"a": "text"})", "tensor a: is not an object"},
      {R"({"a": {}})", "tensor a: does not have all"},
      {R"({"a": {"dtype": "F32", "shape": [2]}})", "does not have all"},
      {R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], "extra": 1}})", "unknown key extra"},
      {R"({"a": {"dtype": "Q9", "shape": [2], "data_offsets": [0, 8]}})", "dtype Q9 is not supported"},
      {R"({"a": {"dtype": null, "shape": [2], "data_offsets": [0, 8]}})", "dtype is not a string"},
      {R"({"a": {"dtype": "F32", "shape": "16", "data_offsets": [0, 8]}})", "shape is not a list"},
      {R"({"a": {"dtype": "F32", "shape": [2.0], "data_offsets": [0, 8]}})", "no 64-bit integer"},
      {R"({"a": {"dtype": "F32", "shape": [-1, -2], "data_offsets": [0, 8]}})", "negative -1"},
      {R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 8]}})",
       "needs 4 bytes, data_offsets hold 8"},
      {R"({"a": {"dtype": "F32", "shape": [4294967296, 4294967296], "data_offsets": [0, 8]}})",
       "than can be counted"},
      {R"({"a": {"dtype": "F32", "shape": [1,1,1,1,1,1,1,1,2], "data_offsets": [0, 8]}})",
       "more than 8 numbers"},
      {R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [8, 0]}})", "[8, 0] are not a range"},
      {R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 16]}})", "not a range within the 8 bytes"},
      {R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [1, 9]}})", "not a range within the 8 bytes"},
      {R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 1099511627776]}})", "not a range"},
      {R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 18446744073709551615]}})",
       "no 64-bit integer"},
      {R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [-8, 0]}})", "negative -8"},
      {R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0]}})", "not a pair"},
      {R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": []}})", "not a pair"},
      {R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4, 8]}})", "more than 2"},
      {R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], "dtype": "F32"}})", "key dtype twice"},
      {R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
           "a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}})",
       "tensor a appears twice"},
      {R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
           "b": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})",
       "tensor b overlaps tensor a"},
      {R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}})", "bytes 0 to 4 before tensor a"},
      {R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})",
       "end at byte 4 of the data, the file at 8"},
      {R"({})", "end at byte 0 of the data, the file at 8"},
      {R"({"__metadata__": 7, "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})",
       "__metadata__ is not"},
      {R"({"__metadata__": {"n": 7}, "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})",
       "__metadata__ holds"},
  };
  for (const Malformed& malformed : table) {
    SCOPED_TRACE(malformed.header);
    const auto tensors = parse_safetensors_header(malformed.header, 8, "model.safetensors");
    ASSERT_FALSE(tensors.ok());
    EXPECT_THAT(tensors.error().problems,
                ElementsAre(testing::AllOf(HasSubstr("model.safetensors: "), HasSubstr(malformed.says))));
  }
}

TEST(SafetensorsHeader, AllProblemsAreListedAtOnce) {
  const auto tensors = parse_safetensors_header(R"({"a": 1, "b": {"dtype": "F8"}, "c": {}})", 8, "f");
  ASSERT_FALSE(tensors.ok());
  EXPECT_EQ(tensors.error().problems.size(), 3U);
}

TEST(SafetensorsHeader, DeepNestingIsRefusedAndNotFollowed) {
  const std::string deep = "{\"a\": " + std::string(100000, '[') + std::string(100000, ']') + "}";
  EXPECT_FALSE(parse_safetensors_header(deep, 8, "f").ok());
}

class SafetensorsFileTest : public testing::Test {
 protected:
  Result<SafetensorsFile, LoadError> open(const std::string& content) {
    write_file(folder_.path() / "model.safetensors", content);
    return SafetensorsFile::open(folder_.path() / "model.safetensors", "model.safetensors");
  }
  TempFolder folder_;
  const std::string header_ = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
};

TEST_F(SafetensorsFileTest, BytesOfATensorAreFoundBehindAHeaderOfAnyLength) {
  for (std::size_t padding = 0; padding < 8; ++padding) {
    const std::string header = header_ + std::string(padding, ' ');
    const auto file = open(length_prefix(header.size()) + header + "\x01\x02\x03\x04");
    ASSERT_TRUE(file.ok());
    EXPECT_EQ(std::memcmp(file->bytes(file->tensors()[0]), "\x01\x02\x03\x04", 4), 0);
  }
}

TEST_F(SafetensorsFileTest, AHeaderLengthIsNotBelieved) {
  const std::string rest = header_ + "1234";
  for (std::uint64_t length :
       {std::uint64_t{0}, std::uint64_t{1}, header_.size() - 1, header_.size() + 1, rest.size() + 1,
        std::uint64_t{0x10000}, std::uint64_t{0x8000000000000000}, ~std::uint64_t{0}, ~std::uint64_t{7}}) {
    const auto file = open(length_prefix(length) + rest);
    ASSERT_FALSE(file.ok()) << length;
    EXPECT_THAT(file.error().problems, ElementsAre(HasSubstr("model.safetensors: ")));
  }
}

TEST_F(SafetensorsFileTest, AHeaderAboveTheFormatsLimitIsRefusedUnread) {
  const fs::path path = folder_.path() / "model.safetensors";
  write_file(path, length_prefix(100'000'001));
  fs::resize_file(path, 200'000'000);
  const auto file = SafetensorsFile::open(path, "model.safetensors");
  ASSERT_FALSE(file.ok());
  EXPECT_THAT(file.error().problems, ElementsAre(HasSubstr("100000001 is above 100000000")));
}

TEST_F(SafetensorsFileTest, TruncatedAndPaddedFilesAreRefused) {
  const std::string whole = length_prefix(header_.size()) + header_ + "1234";
  ASSERT_TRUE(open(whole).ok());
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(open(whole.substr(0, size)).ok()) << size;
  EXPECT_FALSE(open(whole + "5").ok());
}

TEST_F(SafetensorsFileTest, WhatIsNoRegularFileIsRefused) {
  EXPECT_FALSE(SafetensorsFile::open(folder_.path() / "absent", "absent").ok());
  EXPECT_FALSE(SafetensorsFile::open(folder_.path(), "folder").ok());
  ASSERT_EQ(::mkfifo((folder_.path() / "pipe").c_str(), 0600), 0);
  EXPECT_FALSE(SafetensorsFile::open(folder_.path() / "pipe", "pipe").ok());
}

}  // namespace
}  // namespace model
