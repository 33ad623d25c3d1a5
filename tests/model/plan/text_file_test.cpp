#include "model/plan/text_file.h"

#include <gtest/gtest.h>

#include <fstream>

namespace model {
namespace {

TEST(TextFile, IsReadWhole) {
  const auto path = std::filesystem::temp_directory_path() / "atlas_text_file_test";
  std::ofstream(path, std::ios::binary) << std::string("a\0b\r\n", 5);
  EXPECT_EQ(read_text_file(path), std::string("a\0b\r\n", 5));
  std::ofstream(path, std::ios::binary).flush();
  EXPECT_EQ(read_text_file(path), "");
  std::filesystem::remove(path);
}

TEST(TextFile, AFolderOrNothingIsUnreadableAndThrowsNothing) {
  EXPECT_EQ(read_text_file(std::filesystem::temp_directory_path()), std::nullopt);
  EXPECT_EQ(read_text_file("/nothing/at/all"), std::nullopt);
  EXPECT_EQ(read_text_file("/dev/zero"), std::nullopt);
}

}  // namespace
}  // namespace model
