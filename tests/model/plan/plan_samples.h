#pragma once

#include <gmock/gmock.h>

#include <fstream>
#include <string>
#include <vector>

#include "model/plan/serve_plan.h"
#include "tests/model/arch/config_samples.h"

namespace model::testing_plan {

/// All that the tests of every family go over.
inline const std::vector<std::string> kFamilies = {"tiny-llama",      "tiny-qwen3",   "tiny-qwen3_moe",
                                                   "tiny-qwen3_next", "tiny-qwen3_5", "tiny-qwen3_5_moe",
                                                   "tiny-qwen4_exp"};
inline constexpr std::int64_t kGib = std::int64_t{1} << 30;

inline ModelConfig config_in(const std::string& folder) {
  std::ifstream file(folder + "/config.json");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return std::move(parse_model_config(text, "config.json")).value();
}
inline ModelConfig mini() { return config_in(std::string(ATLAS_MODELS) + "/atlas-mini"); }
inline ModelConfig real() { return testing_config::parsed(testing_config::real_config()); }
inline ModelConfig fixture(const std::string& name) {
  return config_in(std::string(ATLAS_FIXTURES) + "/" + name);
}
inline ModelConfig tiny_llama() { return fixture("tiny-llama"); }

inline gpu::DeviceFacts device(gpu::Backend backend, std::int64_t bytes = 64 * kGib) {
  return {backend, "test", gpu::Bytes{bytes}, gpu::Bytes{bytes}, 2, 0, {}};
}
inline PlanOptions options(std::int32_t max_prefill_tokens, std::int32_t max_batch_size,
                           std::int32_t num_drafts = 0) {
  PlanOptions options;
  options.max_prefill_tokens = max_prefill_tokens;
  options.max_batch_size = max_batch_size;
  options.num_drafts = num_drafts;
  return options;
}
/// Ids, page table, and of the penalties: how often each token came, which ids came, how many of either.
inline std::int64_t tables_of_a_slot(std::int64_t max_seq_len, std::int64_t pages, std::int64_t vocab) {
  return 4 * (max_seq_len + pages + vocab + max_seq_len + 2);
}
inline ServePlan plan(const ModelConfig& config, const PlanOptions& options, const gpu::DeviceFacts& facts) {
  auto result = derive_serve_plan(config, options, facts);
  EXPECT_TRUE(result.ok()) << testing::PrintToString(result.ok() ? std::vector<std::string>{}
                                                                 : result.error().problems);
  return result.ok() ? *result : ServePlan{};
}

}  // namespace model::testing_plan
