#include "model/checkpoint/loader.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/widen.h"

namespace model {
namespace {

namespace fs = std::filesystem;

struct Loaded {
  std::unique_ptr<gpu::Device> device = gpu::make_host_device(1);
  std::unique_ptr<gpu::Stream> stream;
  ModelFolder folder;
  ModelWeights weights;
  std::vector<double> fractions;
  std::vector<std::string> notices;
};

std::string join(const LoadError& error) {
  std::string all;
  for (const std::string& problem : error.problems) all += problem + "\n";
  return all;
}

std::unique_ptr<Loaded> load(const fs::path& path, LoadFormat format = LoadFormat::automatic) {
  auto loaded = std::make_unique<Loaded>();
  loaded->stream = std::move(loaded->device->create_stream()).value();
  auto folder = open_model_folder(path);
  EXPECT_TRUE(folder.ok()) << join(folder.error());
  if (!folder.ok()) return nullptr;
  loaded->folder = std::move(folder).value();
  const LoadProgress progress{[&](double fraction) { loaded->fractions.push_back(fraction); },
                              [&](std::string_view line) { loaded->notices.emplace_back(line); }};
  auto weights = load_weights(loaded->folder, format, *loaded->device, *loaded->stream, progress);
  EXPECT_TRUE(weights.ok()) << join(weights.error());
  if (!weights.ok()) return nullptr;
  loaded->weights = std::move(weights).value();
  return loaded;
}

const fs::path kFixtures = ATLAS_FIXTURES;
const fs::path kModels = ATLAS_MODELS;

TEST(Loader, EveryFixtureFolderLoads) {
  for (const fs::path& path : {kFixtures / "tiny-qwen4_exp", kFixtures / "tiny-qwen4_exp-bf16",
                               kFixtures / "tiny-llama", kModels / "atlas-mini"}) {
    SCOPED_TRACE(path);
    const auto loaded = load(path);
    ASSERT_NE(loaded, nullptr);
    EXPECT_TRUE(loaded->notices.empty());
    EXPECT_EQ(loaded->fractions.back(), 1.0);
    EXPECT_TRUE(std::is_sorted(loaded->fractions.begin(), loaded->fractions.end()));
  }
}

}  // namespace
}  // namespace model
