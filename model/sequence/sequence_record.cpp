#include "model/sequence/sequence_record.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace model {
namespace {

bool contains(const std::vector<TokenId>& ids, TokenId id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

}  // namespace

SequenceRecord::SequenceRecord(SequenceId id, std::vector<TokenId> prompt, SequenceLimits limits,
                               SamplingRef sampling)
    : id_(id),
      tokens_(std::move(prompt)),
      prompt_tokens_(static_cast<std::int32_t>(tokens_.size())),
      limits_(std::move(limits)),
      sampling_(std::move(sampling)) {
  assert(prompt_tokens_ >= 1 && prompt_tokens_ < limits_.max_seq_len && limits_.max_tokens >= 1);
}

std::int32_t SequenceRecord::max_tokens_ever() const {
  return std::min(limits_.max_seq_len - prompt_tokens_, limits_.max_tokens) + prompt_tokens_;
}

std::int32_t SequenceRecord::samples_left() const { return max_tokens_ever() - num_tokens(); }

std::vector<TokenId> SequenceRecord::bans_at(std::int32_t index) const {
  if (index >= limits_.min_tokens) return {};
  auto bans = limits_.eos_tokens;
  bans.insert(bans.end(), limits_.stop_tokens.begin(), limits_.stop_tokens.end());
  return bans;
}

void SequenceRecord::begin(StateSlot slot) {
  assert(std::holds_alternative<Waiting>(state_));
  slot_ = slot;
  state_ = Prefilling{};
}

void SequenceRecord::grant(const std::vector<PageId>& pages) {
  assert(!finished());
  pages_.insert(pages_.end(), pages.begin(), pages.end());
}

SequenceRecord::Committed SequenceRecord::commit(const FeedDone& done) {
  Committed committed;
  if (finished()) return committed;
  fed_ += done.rows;
  for (const auto& sampled : done.sampled) {
    tokens_.push_back(sampled.token);
    committed.accepted.push_back(sampled);
    if (auto end = end_after(sampled.token)) {
      committed.end = end;
      finish(*end);
      return committed;
    }
  }
  if (fed_ >= prompt_tokens_) {
    assert(fed_ == num_tokens() - 1);
    state_ = Decoding{};
  }
  return committed;
}

std::optional<SequenceEnd> SequenceRecord::end_after(TokenId token) const {
  if (contains(limits_.stop_tokens, token)) return SequenceEnd{FinishReason::stop, token, true};
  if (contains(limits_.eos_tokens, token)) return SequenceEnd{FinishReason::stop, token, false};
  if (samples_left() <= 0) return SequenceEnd{FinishReason::length, std::nullopt, false};
  return std::nullopt;
}

void SequenceRecord::finish(SequenceEnd end) {
  if (finished()) return;
  state_ = Finished{end};
  ++plan_epoch_;
}

std::vector<PageId> SequenceRecord::take_pages() {
  assert(finished());
  return std::exchange(pages_, {});
}

}  // namespace model
