#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "model_rig.h"
#include "tests/model/checkpoint/test_checkpoint.h"

namespace model {
namespace {

using nlohmann::json;
using testing::fixture;
using testing::ModelRig;
using testing::Recorder;
using testing::RigOptions;
using testing_checkpoint::read_file;
using testing_checkpoint::TempFolder;
using testing_checkpoint::write_file;

/// A model that no fixture is: the config of one, changed by a JSON merge patch, with dummy weights.
class Variant {
 public:
  Variant(const std::string& name, const char* change) {
    json config = json::parse(read_file(fixture(name) + "/config.json"));
    config.merge_patch(json::parse(change));
    write_file(folder_.path() / "config.json", config.dump());
  }

  /// The logits of all rows of a prompt of 130 and of five tokens after it, in chunks of `width`.
  std::vector<float> logits(std::int32_t width, bool poisoned = false) const {
    RigOptions options;
    options.format = LoadFormat::dummy;
    options.poisoned = poisoned;
    ModelRig rig(folder_.path().string(), options);
    std::mt19937 random(3);
    std::vector<TokenId> ids(130);
    for (TokenId& id : ids) id = std::uniform_int_distribution<TokenId>(0, 254)(random);
    Recorder seen(rig);
    rig.runner->set_probe(&seen);
    EXPECT_EQ(rig.generate(0, ids, 6, width).size(), 6U);
    rig.runner->set_probe(nullptr);
    return seen.floats["logits"];
  }

 private:
  TempFolder folder_;
};

// Layers of different kinds share one step's scratch, and the plain MLP is the largest of them; memory full
// of NaN shows what nobody wrote.
TEST(Variants, PlainLayersAmongExpertsRun) {
  for (const char* name : {"tiny-qwen3_moe", "tiny-qwen3_next"}) {
    SCOPED_TRACE(name);
    const Variant mixed(name,
                        R"({"decoder_sparse_step": 2, "mlp_only_layers": [3], "intermediate_size": 1024})");
    const auto whole = mixed.logits(192);
    EXPECT_EQ(mixed.logits(64), whole);
    EXPECT_EQ(mixed.logits(192, true), whole);
    EXPECT_NE(Variant(name, "{}").logits(192), whole);
  }
}

TEST(Variants, TiedHeadsRun) {
  for (const char* name : {"tiny-qwen3", "tiny-qwen3_5"}) {
    SCOPED_TRACE(name);
    const Variant tied(name, R"({"tie_word_embeddings": true})");
    EXPECT_EQ(tied.logits(64), tied.logits(192, true));
  }
}

// The scaling reaches the attention of every family, and changes what it computes.
TEST(Variants, ScaledRopesRun) {
  for (const char* name : {"tiny-llama", "tiny-qwen3", "tiny-qwen3_moe", "tiny-qwen3_next", "tiny-qwen3_5",
                           "tiny-qwen3_5_moe"}) {
    SCOPED_TRACE(name);
    const auto plain = Variant(name, R"({"rope_parameters": {"rope_type": "default"}})").logits(192);
    for (
        const char* scaled :
        {R"({"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}})",
         R"({"rope_parameters": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
              "high_freq_factor": 4.0, "original_max_position_embeddings": 64}})"}) {
      const Variant variant(name, scaled);
      const auto logits = variant.logits(192);
      EXPECT_NE(logits, plain) << scaled;
      EXPECT_EQ(variant.logits(64), logits) << scaled;
    }
  }
}

}  // namespace
}  // namespace model
