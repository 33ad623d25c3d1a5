#include <gtest/gtest.h>

#include <cmath>

#include "model/arch/model_config.h"

namespace model {
namespace {

RopeConfig plain(double theta, std::int32_t rotary_dim) {
  RopeConfig config;
  config.theta = theta;
  config.rotary_dim = rotary_dim;
  return config;
}

/// The reference values were computed apart from this code in fp32 steps; a last bit may differ in the power
/// function.
void expect_near(const RopeTable& table, std::size_t i, double expected) {
  ASSERT_LT(i, table.inv_freq.size());
  EXPECT_NEAR(table.inv_freq[i], expected, 2e-7 * expected) << "frequency " << i;
}

TEST(RopeTable, PlainFrequenciesArePowersOfTheta) {
  const RopeTable table = make_rope_table(plain(10000.0, 8));
  ASSERT_EQ(table.inv_freq.size(), 4U);
  EXPECT_EQ(table.attention_factor, 1.0F);
  EXPECT_EQ(table.inv_freq[0], 1.0F);
  expect_near(table, 1, 0.1);
  expect_near(table, 2, 0.01);
  expect_near(table, 3, 0.001);
}

TEST(RopeTable, LlamaThreeKeepsShortWavesSlowsLongOnesAndBlendsThoseBetween) {
  RopeConfig config = plain(500000.0, 128);
  config.type = RopeConfig::Type::llama3;
  config.factor = 8.0;
  config.low_freq_factor = 1.0;
  config.high_freq_factor = 4.0;
  config.original_max_positions = 8192;
  const RopeTable table = make_rope_table(config);
  const RopeTable kept = make_rope_table(plain(500000.0, 128));
  EXPECT_EQ(table.attention_factor, 1.0F);
  for (std::size_t i = 0; i < 29; ++i) EXPECT_EQ(table.inv_freq[i], kept.inv_freq[i]) << i;
  for (std::size_t i = 35; i < 64; ++i) EXPECT_EQ(table.inv_freq[i], kept.inv_freq[i] / 8.0F) << i;
  expect_near(table, 29, 0.0021665706299245358);
  expect_near(table, 32, 0.0005248460220173001);
  expect_near(table, 34, 0.0001785077911335975);
}

TEST(RopeTable, YarnInterpolatesBetweenItsCorrectionBounds) {
  RopeConfig config = plain(1e7, 64);
  config.type = RopeConfig::Type::yarn;
  config.factor = 4.0;
  config.original_max_positions = 262144;
  const RopeTable table = make_rope_table(config);
  const RopeTable kept = make_rope_table(plain(1e7, 64));
  EXPECT_NEAR(table.attention_factor, 0.1 * std::log(4.0) + 1.0, 1e-6);
  for (std::size_t i = 0; i <= 14; ++i) EXPECT_EQ(table.inv_freq[i], kept.inv_freq[i]) << i;
  for (std::size_t i = 22; i < 32; ++i) expect_near(table, i, kept.inv_freq[i] / 4.0);
  expect_near(table, 15, 0.00047423981595784426);
  expect_near(table, 18, 7.217386882985011e-05);
  expect_near(table, 20, 1.844922371674329e-05);
}

TEST(RopeTable, YarnAttentionFactorIsTakenFromTheFileOrFromBothScales) {
  RopeConfig config = plain(10000.0, 64);
  config.type = RopeConfig::Type::yarn;
  config.factor = 40.0;
  config.original_max_positions = 4096;
  config.attention_factor = 1.25;
  EXPECT_EQ(make_rope_table(config).attention_factor, 1.25F);
  config.attention_factor = 0.0;
  config.mscale = 1.0;
  config.mscale_all_dim = 0.5;
  const double expected = (0.1 * std::log(40.0) + 1.0) / (0.05 * std::log(40.0) + 1.0);
  EXPECT_NEAR(make_rope_table(config).attention_factor, expected, 1e-6);
}

}  // namespace
}  // namespace model
