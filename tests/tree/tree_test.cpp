#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

namespace fs = std::filesystem;

namespace {

// http → actors → model → kernels → gpu: includes point rightwards only.
constexpr std::array<std::string_view, 5> kOrder = {"http", "actors", "model", "kernels", "gpu"};

std::size_t rank_of(const std::string& folder) {
  return static_cast<std::size_t>(std::find(kOrder.begin(), kOrder.end(), folder) - kOrder.begin());
}

struct Include {
  std::string file;
  std::string folder;  // of the file
  std::string target;  // as written
  bool quoted = false;
};

std::vector<Include> all_includes() {
  static const std::regex pattern(R"re(^\s*#\s*include\s*([<"])([^>"]+)[>"])re");
  std::vector<Include> found;
  for (const auto folder : kOrder) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(ATLAS_ROOT) / folder)) {
      const auto extension = entry.path().extension();
      if (extension != ".h" && extension != ".cpp" && extension != ".cu" && extension != ".cuh") continue;
      std::ifstream file(entry.path());
      for (std::string line; std::getline(file, line);) {
        if (std::smatch match; std::regex_search(line, match, pattern)) {
          found.push_back({fs::relative(entry.path(), ATLAS_ROOT).string(), std::string(folder), match[2],
                           match[1] == "\""});
        }
      }
    }
  }
  return found;
}

std::string top_folder(const std::string& path) { return path.substr(0, path.find('/')); }

TEST(Tree, IncludesPointRightwardsOnly) {
  std::vector<std::string> wrong;
  for (const auto& include : all_includes()) {
    const auto target = rank_of(top_folder(include.target));
    if (include.quoted && target < kOrder.size() && target < rank_of(include.folder)) {
      wrong.push_back(include.file + " includes " + include.target);
    }
  }
  EXPECT_THAT(wrong, testing::IsEmpty());
}

TEST(Tree, ReadsEnoughIncludesToMeanSomething) { EXPECT_GT(all_includes().size(), 200U); }

TEST(Tree, HttpKnowsNeitherKernelsNorTheDevice) {
  std::vector<std::string> wrong;
  for (const auto& include : all_includes()) {
    const auto target = top_folder(include.target);
    if (include.folder == "http" && (target == "kernels" || target == "gpu"))
      wrong.push_back(include.file + " includes " + include.target);
  }
  EXPECT_THAT(wrong, testing::IsEmpty());
}

TEST(Tree, CafStaysInActorShells) {
  static const std::regex allowed(R"(^actors/(.*_actor|system|handles)\.(h|cpp)$)");
  std::vector<std::string> wrong;
  for (const auto& include : all_includes()) {
    if ((include.target.rfind("caf/", 0) == 0 || include.target == "actors/handles.h") &&
        !std::regex_match(include.file, allowed))
      wrong.push_back(include.file + " includes " + include.target);
  }
  EXPECT_THAT(wrong, testing::IsEmpty());
}

TEST(Tree, BeastAndAsioStayInHttp) {
  std::vector<std::string> wrong;
  for (const auto& include : all_includes()) {
    if (include.target.rfind("boost/", 0) == 0 && include.folder != "http")
      wrong.push_back(include.file + " includes " + include.target);
  }
  EXPECT_THAT(wrong, testing::IsEmpty());
}

TEST(Tree, TheTopLevelIsTheEightFoldersAndTheirPapers) {
  const std::vector<std::string> allowed = {"CMakeLists.txt",
                                            "CMakePresets.json",
                                            "README.md",
                                            "CONTRIBUTING.md",
                                            "LICENSE",
                                            "dev",
                                            "actors",
                                            "bench",
                                            "build",
                                            "conf",
                                            "gpu",
                                            "http",
                                            "kernels",
                                            "model",
                                            "tests"};
  for (const auto& entry : fs::directory_iterator(ATLAS_ROOT)) {
    const auto name = entry.path().filename().string();
    if (name.front() == '.') continue;
    EXPECT_THAT(allowed, testing::Contains(name));
  }
}

TEST(Tree, EveryFolderHasAReadme) {
  for (const auto* folder : {"actors", "bench", "conf", "gpu", "http", "kernels", "model", "tests"}) {
    EXPECT_TRUE(fs::exists(fs::path(ATLAS_ROOT) / folder / "README.md")) << folder;
  }
}

TEST(Tree, EnvironmentIsReadByTheOptionsAlone) {
  std::vector<std::string> wrong;
  for (const auto folder : kOrder) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(ATLAS_ROOT) / folder)) {
      const auto extension = entry.path().extension();
      if (extension != ".h" && extension != ".cpp") continue;
      std::ifstream file(entry.path());
      const std::string text(std::istreambuf_iterator<char>(file), {});
      const auto path = fs::relative(entry.path(), ATLAS_ROOT).string();
      if (text.find("getenv(") != std::string::npos && path.rfind("model/plan/", 0) != 0 &&
          path != "http/main.cpp")
        wrong.push_back(path);
    }
  }
  EXPECT_THAT(wrong, testing::IsEmpty());
}

}  // namespace
