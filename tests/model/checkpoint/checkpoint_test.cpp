#include "model/checkpoint/checkpoint.h"

#include <gmock/gmock.h>

#include "tests/model/checkpoint/test_checkpoint.h"

namespace model {
namespace {

using namespace testing_checkpoint;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kIndex = "model.safetensors.index.json";
constexpr const char* kFirst = "model-00001-of-00002.safetensors";
constexpr const char* kSecond = "model-00002-of-00002.safetensors";

/// Two shards: a and b in the first, c in the second.
class ShardedCheckpoint : public testing::Test {
 protected:
  ShardedCheckpoint() {
    fs::create_directory(folder_);
    TestFile{{{"a", "F32", {2}, ""}, {"b", "F32", {2}, ""}}}.write(folder_ / kFirst);
    TestFile{{{"c", "F32", {2}, ""}}}.write(folder_ / kSecond);
  }
  Result<Checkpoint, LoadError> open(const nlohmann::json& map) {
    write_file(folder_ / kIndex,
               nlohmann::json{{"metadata", nlohmann::json::object()}, {"weight_map", map}}.dump());
    return Checkpoint::open(folder_);
  }
  TempFolder outer_;
  fs::path folder_ = outer_.path() / "model";
};

TEST_F(ShardedCheckpoint, OpensWhatTheIndexNames) {
  const auto checkpoint = open({{"a", kFirst}, {"b", kFirst}, {"c", kSecond}});
  ASSERT_TRUE(checkpoint.ok());
  EXPECT_EQ(checkpoint->tensors().size(), 3U);
  EXPECT_EQ(checkpoint->directory(), kIndex);
  EXPECT_EQ(checkpoint->tensors().find("c")->second.file->name(), kSecond);
}

TEST_F(ShardedCheckpoint, ANameThatLeadsOutOfTheFolderIsRefusedUnopened) {
  TestFile{{{"a", "F32", {2}, ""}}}.write(outer_.path() / "outside.safetensors");
  for (const std::string& name :
       {std::string("../outside.safetensors"), std::string("sub/../../outside.safetensors"),
        std::string("/etc/hostname"), std::string("./../x"), std::string(""),
        std::string("a\0b.safetensors", 15), std::string("."), std::string(".."), std::string("./") + kFirst,
        std::string("sub\\x"), std::string(300, 'x')}) {
    SCOPED_TRACE(name);
    const auto checkpoint = open({{"a", name}, {"b", kFirst}, {"c", kSecond}});
    ASSERT_FALSE(checkpoint.ok());
    EXPECT_THAT(checkpoint.error().problems,
                ElementsAre(AllOf(HasSubstr(kIndex), HasSubstr("tensor a"), HasSubstr("plain file name"))));
  }
}

TEST_F(ShardedCheckpoint, AFileThatIsNotThereIsNamedWithTheIndex) {
  const auto checkpoint = open({{"a", "not-there.safetensors"}, {"b", kFirst}, {"c", kSecond}});
  ASSERT_FALSE(checkpoint.ok());
  EXPECT_THAT(checkpoint.error().problems,
              Contains(AllOf(HasSubstr(kIndex), HasSubstr("not-there.safetensors"))));
}

TEST_F(ShardedCheckpoint, IndexAndFilesMustAgree) {
  const auto misplaced = open({{"a", kFirst}, {"b", kSecond}, {"c", kSecond}});
  ASSERT_FALSE(misplaced.ok());
  EXPECT_THAT(misplaced.error().problems,
              ElementsAre(AllOf(HasSubstr(kFirst), HasSubstr("tensor b"), HasSubstr("not listed")),
                          AllOf(HasSubstr(kIndex), HasSubstr("tensor b is not in"))));
  const auto invented = open({{"a", kFirst}, {"b", kFirst}, {"c", kSecond}, {"d", kSecond}});
  ASSERT_FALSE(invented.ok());
  EXPECT_THAT(invented.error().problems,
              ElementsAre(AllOf(HasSubstr(kIndex), HasSubstr("tensor d is not in"))));
  const auto forgotten = open({{"a", kFirst}, {"c", kSecond}});
  ASSERT_FALSE(forgotten.ok());
  EXPECT_THAT(forgotten.error().problems,
              ElementsAre(AllOf(HasSubstr(kFirst), HasSubstr("tensor b is not listed"))));
}

TEST_F(ShardedCheckpoint, AMalformedIndexIsRefused) {
  for (const char* text : {"", "[]", "{}", R"({"weight_map": []})", R"({"weight_map": {}})",
                           R"({"weight_map": {"a": 7}})", R"({"weight_map": {"a": "x", "a": "y"}})"}) {
    write_file(folder_ / kIndex, text);
    const auto checkpoint = Checkpoint::open(folder_);
    ASSERT_FALSE(checkpoint.ok()) << text;
    EXPECT_THAT(checkpoint.error().problems, ElementsAre(HasSubstr(kIndex)));
  }
}

TEST_F(ShardedCheckpoint, AFolderWithoutWeightsNamesTheFileThatIsMissing) {
  const auto checkpoint = Checkpoint::open(folder_);
  ASSERT_FALSE(checkpoint.ok());
  EXPECT_THAT(checkpoint.error().problems, ElementsAre(HasSubstr("model.safetensors: ")));
}

}  // namespace
}  // namespace model
