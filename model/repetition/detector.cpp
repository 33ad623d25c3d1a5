#include "model/repetition/detector.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace model::repetition {
namespace {

constexpr TokenId kNoToken = -1;  // equals nothing that is ever sampled
constexpr std::int32_t kSuspiciousPeriods = 2, kSuspiciousTokens = 24;
constexpr std::int32_t kNever = std::numeric_limits<std::int32_t>::max();

}  // namespace

std::shared_ptr<const Detector::Rules> Detector::rules_of(const Thresholds& thresholds) {
  auto rules = std::make_shared<Rules>();
  for (std::size_t i = 0; i < kPeriods; ++i) {
    const auto period = static_cast<std::int32_t>(i) + 1;
    const bool looked_for = period >= thresholds.min_period && period <= thresholds.max_period;
    const auto run_of = [&](std::int32_t periods, std::int32_t tokens) {
      return looked_for ? std::max((periods - 1) * period, tokens - period) : kNever;
    };
    rules->fires[i] = run_of(thresholds.min_repeats, thresholds.min_tokens);
    rules->fires_numeric[i] = run_of(thresholds.min_repeats, thresholds.min_tokens_numeric);
    rules->suspects[i] = std::min(run_of(kSuspiciousPeriods, kSuspiciousTokens), rules->fires[i]);
  }
  return rules;
}

Detector::Detector(const Thresholds& thresholds, std::shared_ptr<const TokenTraits> traits)
    : rules_(rules_of(thresholds)), traits_(std::move(traits)) {
  recent_.fill(kNoToken);
}

void Detector::push(TokenId token) {
  const TokenId* const before = recent_.data() + head_;
  const Counts& suspects = rules_->suspects;
  std::int32_t suspicious = 0;
  for (std::size_t i = 0; i < kPeriods; ++i) {
    const std::int32_t run = before[i] == token ? run_[i] + 1 : 0;
    run_[i] = run;
    suspicious |= static_cast<std::int32_t>(run >= suspects[i]);
  }
  suspicious_ = suspicious != 0;
  head_ = head_ == 0 ? kLongestPeriod - 1 : head_ - 1;
  recent_[static_cast<std::size_t>(head_)] = token;
  recent_[static_cast<std::size_t>(head_) + kPeriods] = token;
}

std::optional<Tail> Detector::tail() const {
  if (!suspicious_) return std::nullopt;
  std::optional<Tail> longest;
  std::int32_t words = 0, fillers = 0;  // of the latest `period` tokens
  for (std::size_t i = 0; i < kPeriods; ++i) {
    const auto period = static_cast<std::int32_t>(i) + 1;
    const auto weight = traits_ == nullptr ? TokenTraits::Weight{1, 0} : traits_->weight(recent(period - 1));
    words += weight.words;
    fillers += weight.fillers;
    if (run_[i] < rules_->suspects[i]) continue;
    const std::int32_t needed = fillers > words ? rules_->fires_numeric[i] : rules_->fires[i];
    const Tail tail{period, run_[i] + period, std::max(needed - run_[i], 0)};
    if (tail.tokens_to_fire == 0) return tail;
    if (!longest || tail.tokens > longest->tokens) longest = tail;
  }
  return longest;
}

}  // namespace model::repetition
