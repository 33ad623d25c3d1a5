#include "actors/gpu_stream/canary.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace actors {
namespace {

using model::TokenId;

constexpr std::int32_t kGrid = 64;  // chunks begin on it
constexpr std::int32_t kPromptTokens = 80;
constexpr std::int32_t kTokens = 4;

std::string text_of(const std::vector<TokenId>& tokens) {
  std::string text;
  for (const TokenId token : tokens) text += (text.empty() ? "" : " ") + std::to_string(token);
  return text;
}

/// One answer to the prompt, chunk by chunk, then token by token.
class CanaryRun {
 public:
  CanaryRun(const Canary& canary, const CanaryPlace& place, model::StepNumber number, const Execute& execute)
      : canary_(canary), place_(place), number_(number), execute_(execute) {
    model::SamplingParams greedy;
    greedy.temperature = 0.0F;
    sampling_ = std::make_shared<const model::SamplingParams>(greedy);
  }

  /// The first chunk has `first` tokens, the others are as wide as can be.
  CanaryOutcome run(std::int32_t first) {
    tokens_.clear();
    fed_ = 0;
    num_pages_ = 0;
    const auto prompt = static_cast<std::int32_t>(canary_.prompt.size());
    for (std::int32_t width = std::min(first, prompt); fed_ < prompt;
         width = std::min(canary_.chunk_width, prompt - fed_)) {
      const auto begin = canary_.prompt.begin() + fed_;
      if (auto wrong = step(model::Form::prefill, {begin, begin + width}, fed_ + width == prompt))
        return *std::move(wrong);
    }
    while (static_cast<std::int32_t>(tokens_.size()) < canary_.num_tokens) {
      if (auto wrong = step(model::Form::decode, {tokens_.back()}, true)) return *std::move(wrong);
    }
    return tokens_;
  }

 private:
  /// What ends the canary, if anything.
  std::optional<CanaryOutcome> step(model::Form form, std::vector<TokenId> known, bool samples) {
    const auto width = static_cast<std::int32_t>(known.size());
    model::StepPlan plan;
    plan.number = number_;
    if (fed_ == 0) plan.resets = {place_.slot};
    model::Feed feed;  // sequence 0, which is nobody's
    feed.slot = place_.slot;
    feed.form = form;
    feed.first = fed_;
    feed.known = std::move(known);
    feed.prompt_tokens = static_cast<std::int32_t>(canary_.prompt.size());
    const auto pages = (fed_ + width + canary_.block_size - 1) / canary_.block_size;
    feed.new_pages.assign(place_.pages.begin() + num_pages_, place_.pages.begin() + pages);
    if (samples) {
      feed.logits = {width - 1, 1};
      feed.sampling = sampling_;
    }
    plan.feeds = {std::move(feed)};

    auto result = execute_(plan);
    if (!result.ok()) return std::move(result).error();
    for (const model::FeedOutcome& outcome : result->outcomes) {
      if (!outcome.done.ok()) return CanaryWrong{outcome.done.error().what};
      for (const model::SampledToken& sampled : outcome.done->sampled) tokens_.push_back(sampled.token);
    }
    num_pages_ = pages;
    fed_ += width;
    return std::nullopt;
  }

  const Canary& canary_;
  const CanaryPlace& place_;
  model::StepNumber number_;
  const Execute& execute_;
  model::SamplingRef sampling_;
  std::vector<TokenId> tokens_;
  std::int32_t fed_ = 0;
  std::int32_t num_pages_ = 0;
};

}  // namespace

std::int32_t positions_of(const model::KnownAnswer& known) {
  return static_cast<std::int32_t>(known.prompt.size() + known.tokens.size());
}

Canary derive_canary(const model::ServePlan& plan, const std::optional<model::KnownAnswer>& known) {
  Canary canary;
  canary.chunk_width = plan.chunk_width;
  canary.block_size = plan.block_size;
  if (known && positions_of(*known) <= plan.max_seq_len) {
    canary.prompt = known->prompt;
    canary.num_tokens = static_cast<std::int32_t>(known->tokens.size());
    canary.expected = known->tokens;
    return canary;
  }
  canary.num_tokens = std::clamp(plan.max_seq_len - 1, 1, kTokens);
  const auto length = std::clamp(plan.max_seq_len - canary.num_tokens, 1, kPromptTokens);
  for (std::int32_t i = 0; i < length; ++i) canary.prompt.push_back((17 + i * 7919) % plan.vocab_size);
  return canary;
}

CanaryOutcome run_canary(const Canary& canary, const CanaryPlace& place, model::StepNumber number,
                         const Execute& execute) {
  CanaryRun run(canary, place, number, execute);
  CanaryOutcome whole = run.run(canary.chunk_width);
  const auto* tokens = std::get_if<std::vector<TokenId>>(&whole);
  if (tokens == nullptr) return whole;
  CanaryOutcome cut = run.run(kGrid);
  const auto* again = std::get_if<std::vector<TokenId>>(&cut);
  if (again == nullptr) return cut;
  if (*tokens != *again)
    return CanaryWrong{"the same prompt, cut otherwise, gave other tokens: " + text_of(*tokens) + ", then " +
                       text_of(*again)};
  if (!canary.expected.empty() && *tokens != canary.expected)
    return CanaryWrong{"tokens " + text_of(*tokens) + " where canary.json has " + text_of(canary.expected)};
  return whole;
}

}  // namespace actors
