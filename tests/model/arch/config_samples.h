#pragma once

#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/arch/model_config.h"

namespace model::testing_config {

using nlohmann::json;

inline json fixture(const std::string& name) {
  std::ifstream file(std::string(ATLAS_FIXTURES) + "/" + name + "/config.json");
  return json::parse(file);
}
/// `change` is a JSON merge patch: null takes a key away.
inline json changed(json config, const char* change) {
  config.merge_patch(json::parse(change));
  return config;
}
inline Result<ModelConfig, LoadError> parse(const json& config) {
  return parse_model_config(config.dump(), "config.json");
}
inline ModelConfig parsed(const json& config) {
  auto result = parse(config);
  EXPECT_TRUE(result.ok()) << testing::PrintToString(result.ok() ? std::vector<std::string>{}
                                                                 : result.error().problems);
  return result.ok() ? std::move(result).value() : ModelConfig{};
}

struct Refusal {
  const char* change;
  std::vector<const char*> says;  // one problem that holds all of these
};
inline void expect_refused(const char* fixture_name, const Refusal& refusal) {
  SCOPED_TRACE(refusal.change);
  const auto result = parse(changed(fixture(fixture_name), refusal.change));
  ASSERT_FALSE(result.ok());
  ASSERT_THAT(result.error().problems, testing::SizeIs(1));
  EXPECT_THAT(result.error().problems[0], testing::HasSubstr("config.json: "));
  for (const char* part : refusal.says) EXPECT_THAT(result.error().problems[0], testing::HasSubstr(part));
}

}  // namespace model::testing_config
