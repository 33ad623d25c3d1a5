#pragma once

#include <simdjson.h>

#include "model_rig.h"

namespace model::testing {

/// A prompt of atlas-mini and the tokens that follow it greedily.
struct MiniCase {
  std::string name;
  std::vector<TokenId> prompt, tokens;
  std::int64_t logits_first_position = -1;
};

inline std::vector<MiniCase> read_cases(const std::string& path) {
  std::vector<MiniCase> cases;
  simdjson::dom::parser parser;
  simdjson::dom::element document;
  EXPECT_EQ(parser.load(path).get(document), simdjson::SUCCESS) << path;
  for (const simdjson::dom::element one : document["cases"].get_array()) {
    MiniCase read;
    std::string_view name;
    if (one["name"].get(name) == simdjson::SUCCESS) read.name = name;
    for (const auto id : one["prompt_ids"].get_array())
      read.prompt.push_back(static_cast<TokenId>(id.get_int64()));
    for (const auto id : one["tokens"].get_array())
      read.tokens.push_back(static_cast<TokenId>(id.get_int64()));
    std::int64_t first = -1;
    if (one["logits_first_position"].get(first) == simdjson::SUCCESS) read.logits_first_position = first;
    cases.push_back(std::move(read));
  }
  return cases;
}

inline ModelRig load_mini(RigOptions options = {}) {
  options.max_prefill_tokens = 512;
  options.max_seq_len = 2560;
  return {tests::model_path("atlas-mini"), options};
}

}  // namespace model::testing
