#include <gtest/gtest.h>
#include <simdjson.h>

#include "expected_file.h"
#include "model_rig.h"

namespace model {
namespace {

using testing::ExpectedFile;
using testing::fixture;
using testing::ModelRig;
using testing::Recorder;
using testing::relative_difference;
using testing::RigOptions;

struct Case {
  std::string name;
  std::vector<TokenId> prompt, tokens;
  std::int64_t logits_first_position = -1;
};

std::vector<Case> read_cases(const std::string& path) {
  std::vector<Case> cases;
  simdjson::dom::parser parser;
  simdjson::dom::element document;
  EXPECT_EQ(parser.load(path).get(document), simdjson::SUCCESS) << path;
  for (const simdjson::dom::element one : document["cases"].get_array()) {
    Case read;
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

ModelRig load_mini() {
  RigOptions options;
  options.max_prefill_tokens = 512;
  options.max_seq_len = 2560;
  return {tests::model_path("atlas-mini"), options};
}

TEST(Mini, EveryExpectedCaseGivesTheSameTokens) {
  ModelRig rig = load_mini();
  int cases = 0;
  for (const Case& one : read_cases(fixture("mini/expected.json"))) {
    EXPECT_EQ(rig.generate(0, one.prompt, one.tokens.size()), one.tokens) << one.name;
    ++cases;
  }
  EXPECT_GE(cases, 24);
}

TEST(Mini, EndlessRepetitionGivesTheSameTokens) {
  ModelRig rig = load_mini();
  for (const Case& one : read_cases(fixture("mini/forever.json")))
    EXPECT_EQ(rig.generate(0, one.prompt, one.tokens.size()), one.tokens);
}

TEST(Mini, LogitsMatchTheReference) {
  ModelRig rig = load_mini();
  ExpectedFile expected(fixture("mini") + "/expected.safetensors");
  for (const Case& one : read_cases(fixture("mini/expected.json"))) {
    const std::string key = one.name + ".logits";
    if (!expected.has(key)) continue;
    Recorder seen;
    rig.runner->set_probe(&seen);
    // The reference's rows begin a few positions before the prompt's end and go on over the answer.
    const auto first = static_cast<std::int32_t>(one.logits_first_position);
    rig.run(rig.feed(0, Form::prefill, 0, one.prompt, first), {rig.begin(0)});
    const auto rows = expected.shape(key).at(0);
    auto fed = static_cast<Position>(one.prompt.size());
    for (std::size_t i = 0; fed < first + rows; ++i, ++fed)
      rig.run(rig.feed(0, Form::decode, fed, {one.tokens.at(i)}, 0));
    rig.runner->set_probe(nullptr);
    EXPECT_LE(relative_difference(seen.floats.at("logits"), expected.floats(key)), 1e-4) << one.name;
  }
  EXPECT_TRUE(expected.unused_keys().empty());
}

}  // namespace
}  // namespace model
