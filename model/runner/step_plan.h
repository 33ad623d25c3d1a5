#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "kernels/batch.h"
#include "kernels/fallbacks.h"
#include "model/errors.h"
#include "model/ids.h"
#include "model/sampling/sampling_params.h"

namespace model {

using kernels::Form;

/// A row of the step in flight whose sample is this feed's first input (depth 2, CUDA).
struct RowRef {
  StepNumber step = 0;
  std::int32_t row = 0;
};
/// Rows of the feed, counted from its first, whose logits are needed.
struct RowRange {
  std::int32_t first = 0;
  std::int32_t count = 0;
};
struct Restore {
  StateSlot slot = -1;
  SnapshotSlot from = -1;
  Position k = 0;
  std::vector<PageId> pages;
};
struct Capture {
  StateSlot slot = -1;
  SnapshotSlot into = -1;
  Position k = 0;
};
using MaskRef = std::shared_ptr<const std::vector<std::uint32_t>>;  ///< one bit a token; null: none
using SamplingRef = std::shared_ptr<const SamplingParams>;

/// "Feed tokens [first, first + known.size()) of this sequence, in this form."
struct Feed {
  SequenceId id = 0;
  Epoch plan_epoch = 0;
  StateSlot slot = -1;
  Form form = Form::decode;
  Position first = 0;          ///< == fed
  std::vector<TokenId> known;  ///< the ids to feed
  std::optional<RowRef> from_step_in_flight;
  std::int32_t num_drafts = 0;
  std::vector<PageId> new_pages;  ///< appended to the slot's page table before the step
  RowRange logits;                ///< each such row is sampled …
  std::vector<TokenId> given;  ///< … but the first of them, whose next token is known: they say how likely
                               ///< that was
  SamplingRef sampling;        ///< set when logits.count > 0
  std::int32_t prompt_tokens = 0;  ///< where generated ids begin (penalties)
  std::vector<TokenId> bans;       ///< for the sampled position
  MaskRef mask;
};

// Plans of nobody's: their number is not the scheduler's.
inline constexpr StepNumber kStartupStep = 0;                  ///< the canary, before the process is ready
inline constexpr StepNumber kIdleCanaryStep = ~StepNumber{0};  ///< the canary of a ready process

/// One step of the device as plain data. Executed in this order: resets, restores, captures, feeds, samples,
/// drafts. Prefill-form feeds come first. Every field exists from the start; a Runner refuses (StepError)
/// those that it cannot execute yet.
struct StepPlan {
  StepNumber number = 0;
  std::vector<StateSlot> resets;  ///< slots that begin a sequence: state zeroed, page table emptied
  std::vector<Restore> restores;
  std::vector<Capture> captures;
  std::vector<Feed> feeds;
};

struct TopLogprob {
  TokenId token = 0;
  float logprob = 0.0F;
};
struct SampledToken {
  TokenId token = 0;
  float logprob = 0.0F;  ///< when asked for
  std::vector<TopLogprob> top;
};

struct FeedDone {
  std::int32_t rows = 0;              ///< positions ingested
  std::vector<SampledToken> sampled;  ///< one per logits row, in order
};
struct FeedOutcome {
  SequenceId id = 0;
  Epoch plan_epoch = 0;
  Result<FeedDone, StepError> done;
};
struct StepStats {
  double seconds = 0.0;
  std::int32_t prefill_rows = 0;
  std::int32_t decode_rows = 0;
  std::vector<kernels::GemmFallbacks> fallbacks;  ///< products of this step that took a slower path
  std::uint64_t ple_hits = 0, ple_misses = 0;  ///< n-gram rows of stored tables: in the cache, and read
  double ple_waited = 0.0;                     ///< seconds that layers waited for such reads
  std::int64_t ple_pinned = 0;                 ///< cache slots that the step pinned
};
struct StepResult {
  StepNumber number = 0;
  std::vector<FeedOutcome> outcomes;  ///< one per feed, in the plan's order
  StepStats stats;
};

/// What the GPU-stream actor drives. The Runner implements it; tests put a fake in its place.
class StepExecutor {
 public:
  virtual ~StepExecutor() = default;
  /// A StepError inside an outcome concerns that sequence; a FatalError the process, and the executor must
  /// not be called again.
  virtual Result<StepResult, FatalError> step(const StepPlan& plan) = 0;
  /// Monotonic: raised at least once a layer. Read by any thread (the step deadline).
  virtual std::uint64_t progress() const = 0;
};

}  // namespace model
