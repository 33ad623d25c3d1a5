#include "model/checkpoint/gguf_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "test_gguf.h"

namespace model {
namespace {

using testing::GgufBytes;
using ::testing::HasSubstr;

constexpr std::uint32_t kU32 = 4, kI32 = 5, kF32 = 6, kBool = 7, kString = 8, kArray = 9, kU64 = 10;
constexpr std::uint32_t kTypeF32 = 0, kTypeQ4_0 = 2, kTypeQ8_0 = 8, kTypeQ4_K = 12;

Result<GgufHeader, LoadError> parse(const GgufBytes& file) { return parse_gguf(file.span(), "model.gguf"); }

std::string only_problem(const GgufBytes& file) {
  const auto header = parse(file);
  if (header.ok()) return "none";
  EXPECT_EQ(header.error().problems.size(), 1U);
  return header.error().problems.front();
}

GgufBytes sound_file() {
  GgufBytes file;
  file.start(2, 3).key("general.architecture", kString).text("llama");
  file.key("list", kArray)
      .number(kI32)
      .number(std::uint64_t{2})
      .number(std::int32_t{-7})
      .number(std::int32_t{8});
  file.key("names", kArray).number(kString).number(std::uint64_t{2}).text("a").text("");
  file.tensor("one", {64, 3}, kTypeQ8_0, 0).tensor("two", {5}, kTypeF32, 224);
  return file.data(224 + 32);
}

TEST(GgufHeader, AFileGivesItsKeysAndTensorsWithRowMajorShapes) {
  const GgufBytes file = sound_file();
  const auto header = parse(file);
  ASSERT_TRUE(header.ok()) << header.error().problems.front();
  EXPECT_EQ(header->version, 3U);
  EXPECT_EQ(std::get<std::string_view>(header->metadata.at("general.architecture")), "llama");
  EXPECT_EQ(std::get<GgufArray>(header->metadata.at("list")).integers(), (std::vector<std::int64_t>{-7, 8}));
  EXPECT_EQ(std::get<GgufArray>(header->metadata.at("names")).strings(),
            (std::vector<std::string_view>{"a", ""}));
  ASSERT_EQ(header->tensors.size(), 2U);
  EXPECT_EQ(header->tensors[0].shape, (std::vector<std::int64_t>{3, 64}));
  EXPECT_EQ(header->tensors[0].type, StoredType(kernels::QuantFormat::q8_0));
  EXPECT_EQ(header->tensors[0].bytes, 3 * 2 * 34);
  EXPECT_EQ(header->tensors[1].offset, 224);
  EXPECT_EQ(header->data_start % 32, 0);
}

TEST(GgufHeader, TheAlignmentOfTheFileIsObeyed) {
  GgufBytes file;
  file.start(1, 1).key("general.alignment", kU32).number(std::uint32_t{256}).tensor("t", {4}, kTypeF32, 256);
  const auto header = parse(file.data(256 + 16, 256));
  ASSERT_TRUE(header.ok()) << header.error().problems.front();
  EXPECT_EQ(header->data_start, 256);
}

struct Malformed {
  const char* what;
  GgufBytes file;
  const char* reason;
};

GgufBytes one_tensor(const std::vector<std::uint64_t>& dimensions, std::uint32_t type,
                     std::uint64_t offset = 0, std::size_t data = 4096) {
  GgufBytes file;
  return file.start(1, 0).tensor("t", dimensions, type, offset).data(data);
}
GgufBytes one_key(std::uint32_t type, const std::function<void(GgufBytes&)>& value) {
  GgufBytes file;
  file.start(0, 1).key("k", type);
  value(file);
  return file.data(64);
}

std::vector<Malformed> malformed_files() {
  constexpr std::uint64_t kHuge = std::uint64_t{1} << 62;
  const auto plain = [] { return GgufBytes(); };
  std::vector<Malformed> all;
  const auto add = [&](const char* what, const GgufBytes& file, const char* reason) {
    all.push_back({what, file, reason});
  };
  add("empty", plain(), "0 bytes is no GGUF file");
  add("seven bytes", plain().raw("GGUF").raw("\3\0\0"), "is no GGUF file");
  add("another magic", plain().raw("GGML").data(64), "does not begin with");
  add("swapped magic", plain().raw("FUGG").data(64), "big-endian");
  add("big-endian version", plain().start(0, 0, 0x03000000).data(64), "big-endian");
  add("version 0", plain().start(0, 0, 0).data(64), "version 0 is not supported");
  add("version 1", plain().start(0, 0, 1).data(64), "version 1 is not supported");
  add("version 4", plain().start(0, 0, 4).data(64), "version 4 is not supported");
  add("tensor count", plain().start(kHuge, 0).data(64), "4611686018427387904 tensors do not fit");
  add("key count", plain().start(0, kHuge).data(64), "4611686018427387904 metadata keys do not fit");
  add("both counts", plain().start(3, 5).data(64), "do not fit into");
  add("key name past the end", plain().start(0, 1).number(kHuge).data(64), "needs 4611686018427387904 bytes");
  add("key name of 70000 bytes", plain().start(0, 1).text(std::string(70000, 'k')).data(64), "70000 bytes");
  add("key without a name", plain().start(0, 1).key("", kU32).data(64), "has no name");
  add("value type 13", one_key(13, [](auto&) {}), "unknown value type 13");
  add("value type -1", one_key(~0U, [](auto&) {}), "unknown value type 4294967295");
  add("text past the end", one_key(kString, [](auto& f) { f.number(std::uint64_t{100000}); }),
      "key \"k\" needs 100000 bytes");
  add("boolean 2", one_key(kBool, [](auto& f) { f.raw("\2"); }), "is the boolean 2");
  add("list of lists", one_key(kArray, [](auto& f) { f.number(kArray).number(std::uint64_t{1}); }),
      "list of lists");
  add("list of an unknown type", one_key(kArray, [](auto& f) { f.number(99U).number(std::uint64_t{1}); }),
      "unknown value type 99");
  add("list past the end", one_key(kArray, [](auto& f) { f.number(kF32).number(std::uint64_t{1} << 61); }),
      "do not fit");
  add("list of texts past the end", one_key(kArray, [](auto& f) { f.number(kString).number(kHuge); }),
      "do not fit");
  add("text in a list past the end",
      one_key(kArray, [](auto& f) { f.number(kString).number(std::uint64_t{1}).number(kHuge); }),
      "needs 4611686018427387904 bytes");
  add("list of wrong booleans",
      one_key(kArray, [](auto& f) { f.number(kBool).number(std::uint64_t{2}).raw("\1\7"); }),
      "neither 0 nor 1");
  add("key twice", plain().start(0, 2).key("k", kU32).number(1U).key("k", kU32).number(1U).data(64),
      "\"k\" appears twice");
  add("value cut off", plain().start(0, 1).key("k", kU64).raw("\1"), "needs 8 bytes");
  add("alignment 0",
      plain().start(1, 1).key("general.alignment", kU32).number(0U).tensor("t", {4}, 0, 0).data(64),
      "general.alignment");
  add("alignment 48",
      plain().start(1, 1).key("general.alignment", kU32).number(48U).tensor("t", {4}, 0, 0).data(64),
      "power of two");
  add("alignment as text",
      plain().start(1, 1).key("general.alignment", kString).text("32").tensor("t", {4}, 0, 0).data(64),
      "power of two");
  add("tensor without a name", plain().start(1, 0).tensor("", {4}, 0, 0).data(64), "has no name");
  add("tensor name of 300 bytes", plain().start(1, 0).tensor(std::string(300, 't'), {4}, 0, 0).data(64),
      "300 bytes");
  add("tensor twice", plain().start(2, 0).tensor("t", {4}, 0, 0).tensor("t", {4}, 0, 32).data(64),
      "\"t\" appears twice");
  add("no dimensions", one_tensor({}, kTypeF32), "has 0 dimensions");
  add("five dimensions", one_tensor({1, 1, 1, 1, 1}, kTypeF32), "has 5 dimensions");
  add("dimension 0", one_tensor({4, 0}, kTypeF32), "dimension of 0");
  add("dimension of 2^63", one_tensor({std::uint64_t{1} << 63}, kTypeF32),
      "dimension of 9223372036854775808");
  add("elements overflow", one_tensor({std::uint64_t{1} << 40, std::uint64_t{1} << 40}, kTypeF32),
      "more elements than can be counted");
  add("bytes overflow", one_tensor({std::uint64_t{1} << 61, 3}, kTypeF32), "needs more bytes");
  add("half a block", one_tensor({48}, kTypeQ4_0), "no whole blocks of 32");
  add("half a large block", one_tensor({128, 2}, kTypeQ4_K), "no whole blocks of 256");
  add("type IQ2_XXS", one_tensor({256}, 16), "tensor \"t\" is IQ2_XXS, which is not supported");
  add("type MXFP4", one_tensor({32}, 39), "is MXFP4");
  add("type Q4_2, withdrawn", one_tensor({32}, 4), "unknown type 4");
  add("type 4242", one_tensor({32}, 4242), "unknown type 4242");
  add("offset not aligned", one_tensor({4}, kTypeF32, 8), "is not aligned to 32");
  add("offset past the end", one_tensor({4}, kTypeF32, 1 << 20), "ends behind");
  add("offset of 2^63", one_tensor({4}, kTypeF32, std::uint64_t{1} << 63), "offset 9223372036854775808");
  add("offset near 2^63", one_tensor({4}, kTypeF32, (std::uint64_t{1} << 63) - 32), "ends behind");
  add("last byte missing", one_tensor({64}, kTypeF32, 0, 255), "ends behind");
  add("overlap", plain().start(2, 0).tensor("a", {16}, 0, 0).tensor("b", {4}, 0, 32).data(64),
      "\"b\" overlaps tensor \"a\"");
  add("tensor list cut off",
      plain()
          .start(1, 0)
          .text("t")
          .number(2U)
          .number(std::uint64_t{4})
          .number(std::uint64_t{1})
          .raw("\1\1\1\1"),
      "needs 8 bytes");
  return all;
}

TEST(GgufHeader, EveryMalformedFileIsRefusedWithItsReason) {
  const auto files = malformed_files();
  EXPECT_GE(files.size(), 45U);
  for (const Malformed& malformed : files) {
    SCOPED_TRACE(malformed.what);
    const std::string problem = only_problem(malformed.file);
    EXPECT_THAT(problem, ::testing::StartsWith("model.gguf: "));
    EXPECT_THAT(problem, HasSubstr(malformed.reason));
  }
}

TEST(GgufHeader, AllProblemsAreListedAtOnce) {
  GgufBytes file;
  file.start(3, 0).tensor("a", {48}, kTypeQ4_0, 0).tensor("b", {4}, 16, 0).tensor("c", {4}, kTypeF32, 7);
  const auto header = parse(file.data(64));
  ASSERT_FALSE(header.ok());
  EXPECT_EQ(header.error().problems.size(), 3U);
}

TEST(GgufHeader, AFileCutOffAnywhereIsRefused) {
  const GgufBytes file = sound_file();
  for (std::size_t length = 0; length + 13 <= file.bytes().size();
       ++length)  // the last tensor ends 12 before
    EXPECT_FALSE(parse_gguf(file.span().first(length), "f").ok()) << length;
}

/// Nothing is asserted about the answer: reading must stay within the bytes, and end.
TEST(GgufHeader, AnyChangedByteIsReadWithoutHarm) {
  const GgufBytes file = sound_file();
  std::mt19937 random(11);
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = file.bytes();
    for (int change = 0; change <= round % 3; ++change)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    const auto header = parse_gguf(std::as_bytes(std::span(bytes)), "f");
    if (!header.ok()) continue;
    for (const TensorEntry& tensor : header->tensors)
      EXPECT_LE(header->data_start + tensor.offset + tensor.bytes, static_cast<std::int64_t>(bytes.size()));
    for (const auto& [key, value] : header->metadata) {
      if (const auto* array = std::get_if<GgufArray>(&value)) {
        array->strings();
        array->integers();
      }
    }
  }
}

}  // namespace
}  // namespace model
