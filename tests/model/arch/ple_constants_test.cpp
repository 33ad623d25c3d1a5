#include "model/arch/ple_constants.h"

#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

namespace model {
namespace {

using Numbers = std::vector<std::int64_t>;

PleConfig real_model() {
  PleConfig config;
  config.layers = {1};
  config.embed_dim = 2560;
  config.ngram_size = 3;
  config.heads_per_ngram = 8;
  config.vocab_size_base = 20000000;
  return config;
}

TEST(PleConstants, OfTheRealModelAreThePublishedOnes) {
  const PleConstants constants = derive_ple_constants(real_model(), 248320, 0);
  EXPECT_EQ(constants.multipliers, (Numbers{23703573157769, 20109073645365, 8052911324071}));
  EXPECT_EQ(constants.sizes,
            (Numbers{20000003, 20000023, 20000033, 20000047, 20000059, 20000063, 20000069, 20000077, 20000081,
                     20000093, 20000107, 20000147, 20000153, 20000159, 20000161, 20000171}));
  EXPECT_EQ(constants.offsets,
            (Numbers{0, 20000003, 40000026, 60000059, 80000106, 100000165, 120000228, 140000297, 160000374,
                     180000455, 200000548, 220000655, 240000802, 260000955, 280001114, 300001275}));
  EXPECT_EQ(constants.table_rows, 320001536);
}

TEST(PleConstants, TheSecondLayerGoesOnWithThePrimesAndMixesAnotherSeed) {
  const PleConstants constants = derive_ple_constants(real_model(), 248320, 1);
  EXPECT_EQ(constants.multipliers[0], 3352040966061);
  EXPECT_EQ(constants.sizes[0], 20000213);
  EXPECT_EQ(constants.sizes[1], 20000221);
  EXPECT_EQ(constants.offsets[0], 0);
}

TEST(PleConstants, OfTheTinyModelAreTheReferences) {
  std::ifstream file(std::string(ATLAS_FIXTURES) + "/tiny-qwen4_exp/report.json");
  const auto report = nlohmann::json::parse(file);
  PleConfig config;
  config.embed_dim = 64;
  config.heads_per_ngram = 4;
  config.vocab_size_base = 50;
  for (const auto& [ple_index, key] : {std::pair(0, "ngram.layer1"), std::pair(1, "ngram.layer5")}) {
    const PleConstants constants = derive_ple_constants(config, 256, ple_index);
    EXPECT_EQ(constants.multipliers, report[key]["multipliers"].get<Numbers>());
    EXPECT_EQ(constants.sizes, report[key]["head_vocab_sizes"].get<Numbers>());
    EXPECT_EQ(constants.offsets, report[key]["head_offsets"].get<Numbers>());
    EXPECT_EQ(constants.table_rows, report[key]["rows"].get<std::int64_t>());
  }
}

}  // namespace
}  // namespace model
