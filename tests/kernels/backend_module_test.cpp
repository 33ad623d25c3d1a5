#include "kernels/backend_module.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace kernels {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::StartsWith;

std::string why_not(const fs::path& file) {
  const auto module = load_backend_module(file);
  return module.ok() ? "it was loaded" : module.error().why;
}
fs::path test_module(const std::string& name) { return fs::path(ATLAS_BACKEND_MODULES) / (name + ".so"); }

/// `lib/x.so` with a text in it, gone with the test.
class TextModule {
 public:
  TextModule() {
    fs::create_directories(file().parent_path());
    std::ofstream(file()) << "no shared object\n";
  }
  ~TextModule() { fs::remove_all(folder_); }
  fs::path file() const { return folder_ / "lib" / "x.so"; }

 private:
  fs::path folder_ = fs::path(testing::TempDir()) / "backend_module_test";
};

TEST(BackendModule, ThatIsNotThereIsNamedByFolderAndFile) {
  EXPECT_EQ(why_not("/nowhere/lib/atlas_cuda.so"), "lib/atlas_cuda.so: not there");
}

TEST(BackendModule, ThatIsNoLibraryGivesTheLinkersReasonWithoutItsPath) {
  const TextModule module;
  EXPECT_THAT(why_not(module.file()), StartsWith("lib/x.so: "));
  EXPECT_THAT(why_not(module.file()), testing::Not(HasSubstr(module.file().string())));
}

TEST(BackendModule, WithoutTheSymbolIsNotOurs) {
  EXPECT_EQ(why_not(test_module("without_symbol")),
            "backend_modules/without_symbol.so: no symbol atlas_backend");
}

TEST(BackendModule, OfAnotherInterfaceNumberIsRefused) {
  EXPECT_THAT(why_not(test_module("of_another_version")), HasSubstr("of another version of atlas"));
}

TEST(BackendModule, IsLoadedWithoutTouchingItsDevice) {
  const auto module = load_backend_module(test_module("without_device"));
  ASSERT_TRUE(module.ok()) << module.error().why;
  EXPECT_STREQ((*module)->name, "cuda");
  const auto device = (*module)->make_device();
  ASSERT_FALSE(device.ok());
  EXPECT_EQ(device.error().what, "no CUDA-capable device is detected");
}

TEST(BackendModule, OfTheProductLiesBesideTheBinary) {
  const fs::path path = cuda_module_path();
  EXPECT_EQ(path.parent_path().parent_path(), fs::read_symlink("/proc/self/exe").parent_path());
  EXPECT_EQ(path.filename(), "atlas_cuda.so");
}

}  // namespace
}  // namespace kernels
