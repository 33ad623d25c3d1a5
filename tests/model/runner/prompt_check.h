#pragma once

#include "expected_file.h"
#include "model_rig.h"

namespace model::testing {

inline constexpr double kTolerance = 1e-4;  // relative: contract of the fixtures

/// One prompt of an expected.safetensors, run and compared key by key.
class PromptCheck {
 public:
  PromptCheck(ModelRig& rig, ExpectedFile& expected, std::string prompt)
      : rig_(rig),
        expected_(expected),
        prompt_(std::move(prompt)),
        ids_(expected.ints(prompt_ + ".input_ids")) {}

  void run() {
    SCOPED_TRACE(prompt_);
    rig_.runner->set_probe(&seen_);
    const auto first = rig_.run(rig_.feed(0, Form::prefill, 0, ids_, 0), {rig_.begin(0)});
    rig_.runner->set_probe(nullptr);
    check_logits();
    check_ngram_rows();
    check_selection();
    if (ids_.size() == 64) check_hidden();
    if (expected_.has(prompt_ + ".multi"))
      compare(prompt_ + ".multi", seen_.floats.at("layer" + std::to_string(rig_.config.layers.size() - 1)));
    const std::string state = "state" + std::to_string(ids_.size());
    if (prompt_.rfind("len", 0) == 0) check_state(state);
    ASSERT_FALSE(first.empty());
    check_greedy(first.back());
  }

 private:
  void compare(const std::string& key, const std::vector<float>& value) {
    EXPECT_LE(relative_difference(value, expected_.floats(key)), kTolerance) << key;
  }

  void check_logits() {
    const auto& all = seen_.floats.at("logits");
    const std::size_t wanted = expected_.floats(prompt_ + ".logits").size();
    ASSERT_GE(all.size(), wanted);
    compare(prompt_ + ".logits", {all.end() - static_cast<std::ptrdiff_t>(wanted), all.end()});
  }

  void check_ngram_rows() {
    if (!rig_.config.ple) return;
    for (const LayerIndex layer : rig_.config.ple->layers) {
      const std::string name = "layer" + std::to_string(layer);
      const auto& want = expected_.ints(prompt_ + ".ngram_ids." + name);
      const auto& got = seen_.longs.at(name + ".ngram_rows");
      EXPECT_EQ(got, (std::vector<std::int64_t>(want.begin(), want.end()))) << name;
    }
  }

  std::vector<std::int32_t> selected(const std::string& layer, Position p) const {
    const IndexerConfig& indexer = *rig_.config.indexer;
    const std::int32_t closed = (p + 1) / indexer.ratio;
    std::vector<std::int32_t> positions;
    if (closed <= indexer.top_blocks()) {
      for (Position t = 0; t <= p; ++t) positions.push_back(t);
      return positions;
    }
    const auto& blocks = seen_.ints.at(layer + ".blocks");
    for (std::int32_t i = 0; i < indexer.top_blocks(); ++i)
      for (std::int32_t t = 0; t < indexer.ratio; ++t)
        positions.push_back(blocks[static_cast<std::size_t>(p * indexer.top_blocks() + i)] * indexer.ratio +
                            t);
    for (Position t = closed * indexer.ratio; t <= p; ++t) positions.push_back(t);
    return positions;
  }

  void check_selection() {
    if (!rig_.config.indexer || !expected_.has(prompt_ + ".qsa_positions")) return;
    const auto positions = expected_.ints(prompt_ + ".qsa_positions");
    for (std::size_t layer = 0; layer < rig_.config.layers.size(); ++layer) {
      if (rig_.config.layers[layer] != LayerKind::sparse_attention) continue;
      const std::string name = "layer" + std::to_string(layer);
      const auto& want = expected_.ints(prompt_ + ".qsa_selected." + name);
      const std::size_t width = want.size() / positions.size();
      for (std::size_t row = 0; row < positions.size(); ++row) {
        auto got = selected(name, positions[row]);
        ASSERT_LE(got.size(), width);
        got.resize(width, -1);
        const auto begin = want.begin() + static_cast<std::ptrdiff_t>(row * width);
        EXPECT_EQ(got, (std::vector<std::int32_t>(begin, begin + static_cast<std::ptrdiff_t>(width))))
            << name << " position " << positions[row];
      }
    }
  }

  void check_hidden() {
    if (!expected_.has("hidden.embed")) return;
    compare("hidden.embed", seen_.floats.at("embed"));
    for (std::size_t layer = 0; layer < rig_.config.layers.size(); ++layer) {
      const std::string name = "layer" + std::to_string(layer);
      compare("hidden." + name, seen_.floats.at(name));
    }
    if (expected_.has("hidden.mixed")) compare("hidden.mixed", seen_.floats.at("mixed"));
  }

  void check_state(const std::string& state) {
    if (!expected_.has(state + ".layer0.conv")) return;
    const auto fed = static_cast<Position>(ids_.size());
    for (const auto& [name, values] : rig_.runner->read_state(0, fed)) check_part(state, name, values);
    if (!rig_.config.ple) return;
    for (const LayerIndex layer : rig_.config.ple->layers) {
      std::vector<std::int32_t> history(2, rig_.config.ple->eos);
      history.insert(history.end(), ids_.begin(), ids_.end());
      EXPECT_EQ(expected_.ints(state + ".layer" + std::to_string(layer) + ".ngram_context"),
                (std::vector<std::int32_t>(history.end() - 2, history.end())));
    }
  }

  void check_part(const std::string& state, const std::string& name, const std::vector<float>& values) {
    const std::string layer = name.substr(0, name.find('.'));
    const std::string part = name.substr(name.find('.') + 1);
    const std::string key = state + "." + name;
    const std::size_t fed = ids_.size();
    if (part == "conv" || part == "ple_conv") {
      // Ours: positions × channels, as many as are needed; theirs: channels × columns, the oldest of `conv`
      // dead.
      const auto channels = static_cast<std::size_t>(expected_.shape(key).at(0));
      const auto columns = static_cast<std::size_t>(expected_.shape(key).at(1));
      auto want = transposed(expected_.floats(key), channels, columns);
      want.erase(want.begin(), want.end() - static_cast<std::ptrdiff_t>(values.size()));
      EXPECT_LE(relative_difference(values, want), kTolerance) << key;
    } else if (part == "recurrent") {
      compare(key, values);
    } else if (part == "keys" || part == "values") {
      const auto heads = static_cast<std::size_t>(rig_.config.num_kv_heads);
      const auto dim = static_cast<std::size_t>(rig_.config.head_dim);
      std::vector<float> by_head(values.size());
      for (std::size_t p = 0; p < fed; ++p)
        for (std::size_t h = 0; h < heads; ++h)
          for (std::size_t i = 0; i < dim; ++i)
            by_head[(h * fed + p) * dim + i] = values[(p * heads + h) * dim + i];
      compare(key, by_head);
    } else if (part == "index_ring") {
      const std::string raw = state + "." + layer + ".indexer_keys";
      compare(raw, seen_.floats.at(layer + ".index_key"));
      const auto& want = expected_.floats(raw);
      EXPECT_LE(
          relative_difference(values, {want.end() - static_cast<std::ptrdiff_t>(values.size()), want.end()}),
          kTolerance);
    }
  }

  void check_greedy(TokenId first) {
    const auto want = expected_.ints(prompt_ + ".greedy");
    std::vector<TokenId> got{first};
    std::vector<float> gaps;
    auto fed = static_cast<Position>(ids_.size());
    auto with_gap = std::make_shared<SamplingParams>();
    with_gap->temperature = 0.0F;
    with_gap->num_logprobs = 2;
    while (got.size() <= want.size()) {
      Feed feed = rig_.feed(0, Form::decode, fed++, {got.back()}, 0);
      feed.sampling = with_gap;
      const StepResult result = rig_.step({feed});
      ASSERT_TRUE(result.outcomes.at(0).done.ok());
      const SampledToken& token = result.outcomes[0].done->sampled.at(0);
      got.push_back(token.token);
      gaps.push_back(token.top.at(0).logprob - token.top.at(1).logprob);
    }
    got.pop_back();
    gaps.pop_back();  // one step more was run than is compared
    EXPECT_EQ(got, want);
    // The first token's gap is the prompt's last row's; the others were seen here.
    const auto& gap = expected_.floats(prompt_ + ".greedy_gap");
    EXPECT_LE(relative_difference(gaps, {gap.begin() + 1, gap.end()}), 5e-4) << prompt_ << " gaps";
  }

  ModelRig& rig_;
  ExpectedFile& expected_;
  std::string prompt_;
  std::vector<TokenId> ids_;
  Recorder seen_{rig_};
};

/// Every prompt of the fixture, and then: no key was left out but those of the MTP head, which is not run.
inline void check_fixture(const std::string& name, RigOptions options = {}) {
  options.max_batch_size = 256;  // as many logits rows
  options.max_seq_len = 256;
  ModelRig rig(fixture(name), options);
  ExpectedFile expected(fixture(name) + "/expected.safetensors");
  int prompts = 0;
  for (const std::string& key : expected.keys()) {
    const std::string ending = ".input_ids";
    if (key.size() <= ending.size() || key.substr(key.size() - ending.size()) != ending) continue;
    PromptCheck(rig, expected, key.substr(0, key.size() - ending.size())).run();
    ++prompts;
  }
  EXPECT_GT(prompts, 0);
  for (const std::string& key : expected.unused_keys())
    EXPECT_NE(key.find(".mtp_"), std::string::npos) << key << " was not compared";
}

}  // namespace model::testing
