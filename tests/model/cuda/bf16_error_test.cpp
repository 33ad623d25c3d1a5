#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/model/cuda/device_rig.h"
#include "tests/model/runner/expected_file.h"

namespace model {
namespace {

using testing::ExpectedFile;
using testing::fixture;
using testing::ModelRig;
using testing::on_device;
using testing::Recorder;
using testing::RigOptions;

/// What transformers' own bfloat16 costs (transformers_bf16.py): fixture → prompt → |theirs − expected| /
/// |expected|. Made on a CPU; ATLAS_BF16_REFERENCE names what the same machine gave.
nlohmann::json reference_errors() {
  const char* const named = std::getenv("ATLAS_BF16_REFERENCE");
  const std::string path = named != nullptr ? named : fixture("transformers_bf16.json");
  std::ifstream file(path);
  EXPECT_TRUE(file.good()) << path;
  const auto report = nlohmann::json::parse(file);
  std::printf("transformers %s, torch %s on %s\n", report["transformers"].get<std::string>().c_str(),
              report["torch"].get<std::string>().c_str(), report["device"].get<std::string>().c_str());
  return report["errors"];
}

struct Error {
  double difference = 0.0, length = 0.0;  // squared
  double relative() const { return std::sqrt(difference / length); }
};

Error logits_error(ModelRig& rig, ExpectedFile& expected, const std::string& prompt) {
  const auto ids = expected.ints(prompt + ".input_ids");
  const auto& want = expected.floats(prompt + ".logits");
  const auto rows = static_cast<std::int32_t>(want.size()) / rig.config.vocab_size;
  Recorder seen(rig);
  rig.runner->set_probe(&seen);
  rig.run(rig.feed(0, Form::prefill, 0, ids, static_cast<std::int32_t>(ids.size()) - rows), {rig.begin(0)});
  rig.runner->set_probe(nullptr);
  const auto& got = seen.floats["logits"];
  Error error;
  EXPECT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
    error.difference += std::pow(static_cast<double>(got[i]) - want[i], 2);
    error.length += std::pow(static_cast<double>(want[i]), 2);
  }
  return error;
}

/// Which experts a row gets, or which blocks it reads: such a choice may fall the other way under any
/// rounding, and one that does outweighs all else in a prompt's few rows. Models that choose are held to the
/// bound over all their prompts, the others in each of them, too.
bool chooses(const ModelConfig& config) { return config.moe || config.indexer; }

TEST(DeviceBf16, CostsNoMoreThanTwiceWhatItCostsTransformers) {
  REQUIRE_DEVICE();
  SKIP_WHERE_EMULATED();
  constexpr double kMost = 2.0;
  RigOptions options = on_device(DTypeOption::bfloat16);
  options.max_batch_size = 64;
  options.max_seq_len = 256;
  const auto reference = reference_errors();
  EXPECT_EQ(reference.size(), 7U);
  for (const auto& [name, prompts] : reference.items()) {
    ModelRig rig(fixture(name), options);
    ExpectedFile expected(fixture(name) + "/expected.safetensors");
    const auto compare = [&, &name = name](const std::string& what, double ours, double theirs, bool bound) {
      std::printf("%-18s %-7s ours %.2e theirs %.2e ratio %.2f\n", name.c_str(), what.c_str(), ours, theirs,
                  ours / theirs);
      if (bound) {
        EXPECT_LE(ours, kMost * theirs) << name << " " << what;
      }
    };
    Error all;
    for (const auto& [prompt, theirs] : prompts.items()) {
      if (prompt == "all") continue;
      const Error error = logits_error(rig, expected, prompt);
      all.difference += error.difference;
      all.length += error.length;
      compare(prompt, error.relative(), theirs.get<double>(), !chooses(rig.config));
    }
    compare("all", all.relative(), prompts["all"].get<double>(), true);
  }
}

}  // namespace
}  // namespace model
