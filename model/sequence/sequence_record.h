#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "model/errors.h"
#include "model/ids.h"
#include "model/runner/step_plan.h"

namespace model {

/// When a sequence ends by itself.
struct SequenceLimits {
  std::int32_t max_tokens = 1;       ///< generated; at least 1
  std::int32_t min_tokens = 0;       ///< until as many were generated, stop tokens are banned
  std::int32_t max_seq_len = 1;      ///< prompt + generated
  std::vector<TokenId> eos_tokens;   ///< the model's; empty with ignore_eos
  std::vector<TokenId> stop_tokens;  ///< the request's: named as the reason when one ends the sequence
};

/// Why a sequence ended, as the truth about its tokens knows it.
struct SequenceEnd {
  FinishReason why = FinishReason::error;
  std::optional<TokenId> stop_token;  ///< which token of `stop_tokens` or `eos_tokens` did it
  bool asked_for = false;             ///< the token is one of the request's own
};

/// The truth about one sequence's tokens: prompt + accepted ids, and how many of them the device has
/// ingested. Everything positional derives from `fed`; there is no second counter. Owned by the scheduler;
/// pure.
///
///   Waiting ──begin(slot)──▶ Prefilling ──commit: fed reaches the prompt's end──▶ Decoding ──end──▶ Finished
///      └──────────────────────────┴───────────────── finish(reason) ──────────────────────────────────▲
///
/// Invariant between steps while Decoding: fed == tokens.size() − 1 (exactly one token is known and not fed).
/// Finished absorbs everything.
class SequenceRecord {
 public:
  struct Waiting {};
  struct Prefilling {};
  struct Decoding {};
  struct Finished {
    SequenceEnd end;
  };
  using State = std::variant<Waiting, Prefilling, Decoding, Finished>;

  SequenceRecord(SequenceId id, std::vector<TokenId> prompt, SequenceLimits limits, SamplingRef sampling);

  SequenceId id() const { return id_; }
  const State& state() const { return state_; }
  bool finished() const { return std::holds_alternative<Finished>(state_); }
  const std::vector<TokenId>& tokens() const { return tokens_; }
  std::int32_t num_tokens() const { return static_cast<std::int32_t>(tokens_.size()); }
  std::int32_t prompt_tokens() const { return prompt_tokens_; }
  std::int32_t generated() const { return num_tokens() - prompt_tokens_; }
  Position fed() const { return fed_; }
  Epoch token_epoch() const { return token_epoch_; }
  Epoch plan_epoch() const { return plan_epoch_; }
  StateSlot slot() const { return slot_; }
  const std::vector<PageId>& pages() const { return pages_; }
  const SequenceLimits& limits() const { return limits_; }
  const SamplingRef& sampling() const { return sampling_; }

  /// The longest it can become: what admission reserves pages for.
  std::int32_t max_tokens_ever() const;
  /// Samples until `length` ends it.
  std::int32_t samples_left() const;
  /// Tokens that may not be sampled as generated token number `index` (from 0): the stop tokens until
  /// min_tokens is reached.
  std::vector<TokenId> bans_at(std::int32_t index) const;

  void begin(StateSlot slot);
  void grant(const std::vector<PageId>& pages);

  struct Committed {
    std::vector<SampledToken> accepted;
    std::optional<SequenceEnd> end;  ///< the last accepted token ended it; the record is Finished
  };
  /// The device ingested `done.rows` and sampled. Tokens after one that ends the sequence are not accepted.
  Committed commit(const FeedDone& done);
  /// Raises the plan epoch: what plans in flight say about this sequence is void from here on.
  void finish(SequenceEnd end);
  /// Of a finished sequence: what it held, to be given back.
  std::vector<PageId> take_pages();

 private:
  std::optional<SequenceEnd> end_after(TokenId token) const;

  SequenceId id_;
  std::vector<TokenId> tokens_;
  std::int32_t prompt_tokens_;
  Position fed_ = 0;
  Epoch token_epoch_ = 0;
  Epoch plan_epoch_ = 0;
  StateSlot slot_ = -1;
  std::vector<PageId> pages_;
  SequenceLimits limits_;
  SamplingRef sampling_;
  State state_ = Waiting{};
};

}  // namespace model
