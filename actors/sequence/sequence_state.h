#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "actors/messages.h"
#include "actors/sequence/hold_back.h"
#include "actors/sequence/repetition_ladder.h"
#include "model/repetition/detector.h"
#include "model/sequence/host_state.h"
#include "model/text/detokenizer.h"
#include "model/text/reasoning_splitter.h"
#include "model/text/stop_matcher.h"
#include "model/text/tokenizer.h"

namespace actors {

/// The prompt that a choice begins with.
struct Echo {
  std::string text;
  std::shared_ptr<const std::vector<model::TokenId>> ids;
  bool logprobs = false;  ///< of its tokens: they come with the first generated one
};
/// How a choice is watched for endless repetition.
struct WatchSettings {
  model::repetition::Thresholds thresholds;
  std::shared_ptr<const model::repetition::TokenTraits> traits;  ///< null: every token is a word
  LadderSettings ladder;
};
/// What one choice's text is made with.
struct TextSettings {
  std::int32_t index = 0;  ///< of the choice
  std::int32_t prompt_tokens = 0;
  std::shared_ptr<const model::text::Tokenizer> tokenizer;  ///< null: ids only, no text
  bool skip_special_tokens = true;
  std::vector<std::string> stop;
  bool include_stop = false;
  std::int32_t min_tokens = 0;  ///< a stop string that ends within so many tokens is text
  std::optional<Echo> echo;
  bool generates = true;  ///< else what is sampled is dropped: the prompt alone was asked for
  model::text::ReasoningSplitter::Start reasoning = model::text::ReasoningSplitter::Start::disabled;
  std::optional<WatchSettings> watch;  ///< none: the model's own output, untouched
};

using SequenceEvent = std::variant<Accepted, Refused, TokensReady, StepFailed, EndChoice, Captured, Declined,
                                   RolledBack, HoldExpired>;

struct TellAccepted {};
struct TellRefused {
  model::RequestError error;
};
struct SendText {
  ChoiceDelta delta;
};
struct SendEnd {
  ChoiceEnded ended;
};
struct AcknowledgeTokens {
  model::Epoch token_epoch = 0;
  std::int32_t tokens_seen = 0;
};
struct FinishSequence {
  model::Epoch token_epoch = 0;
  std::int32_t tokens_seen = 0;
};
struct CancelSequence {};
struct CaptureSequence {
  model::Epoch token_epoch = 0;
  std::int32_t tokens_seen = 0;
};
struct ReleaseSequencePoints {
  model::Epoch token_epoch = 0;
};
struct RollBackSequence {
  model::Epoch token_epoch = 0;
  std::int32_t tokens_seen = 0;
  model::Position boundary = 0;
  model::Position banned_at = 0;
  model::TokenId banned = 0;
};
using SequenceEffect = std::variant<TellAccepted, TellRefused, SendText, SendEnd, AcknowledgeTokens,
                                    FinishSequence, CancelSequence, CaptureSequence, ReleaseSequencePoints,
                                    RollBackSequence, StartHoldTimer, CountHit, CountRollback>;

/// One choice's text: tokens → detokenizer → stop matcher → reasoning splitter → deltas, held back where they
/// may have to be taken back. Owned by the sequence actor; pure.
///
///   Streaming ──a stop string, the scheduler's end, a step error, EndChoice, refused, repetition──▶ Ended
///   (absorbs everything; exactly one SendEnd)
///
/// Token counts and text end together: tokens after a stop match are neither counted nor sent, nor are those
/// that a rollback drops.
class SequenceTextState {
 public:
  explicit SequenceTextState(TextSettings settings);

  using Effects = std::vector<SequenceEffect>;
  Effects step(const SequenceEvent& event);
  /// The same for an event that need not be copied, into a list that is kept.
  template <class Event>
  void step(const Event& event, Effects& effects) {
    if (!ended_) on(event, effects);  // a last token may race the end
  }

  bool ended() const { return ended_; }
  model::Epoch token_epoch() const { return token_epoch_; }
  std::int32_t tokens_seen() const { return tokens_seen_; }

  /// Everything that text depends on, after the tokens seen so far.
  model::HostState save() const;
  /// From here on as if nothing after `saved` had been seen.
  void restore(const model::HostState& saved);

 private:
  /// Present where repetition is watched for.
  struct Watch {
    model::repetition::Detector detector;
    RepetitionLadder ladder;
    HoldBack hold;
    std::vector<model::HostState> host_states;  ///< of the ladder's points
  };

  void on(const Accepted&, Effects& effects);
  void on(const Refused& event, Effects& effects);
  void on(const TokensReady& event, Effects& effects);
  void on(const StepFailed& event, Effects& effects);
  void on(const EndChoice& event, Effects& effects);
  void on(const Captured& event, Effects& effects);
  void on(const Declined& event, Effects& effects);
  void on(const RolledBack& event, Effects& effects);
  void on(const HoldExpired& event, Effects& effects);

  model::Position num_tokens() const { return settings_.prompt_tokens + tokens_seen_; }
  bool rolling_back() const { return watch_ && watch_->ladder.rolling_back_to(); }
  /// Watches one token; false when nothing after it counts any more.
  bool watch(model::TokenId token, ChoiceDelta& delta, Effects& effects);
  enum class Verdict { go_on, stop };
  /// Tells the ladder and does what it says, but for the stop.
  Verdict climb(const LadderEvent& event, Effects& effects);
  void perform(const LadderEffect& effect, Effects& effects);
  void forget_since(model::Position k);
  enum class InScheduler { runs, ended };
  void on(const Declined& event, InScheduler there, Effects& effects);
  void stop_for_repetition(ChoiceDelta delta, InScheduler there, Effects& effects);
  void say(std::vector<ChoiceDelta> deltas, Effects& effects) const;

  void echo(ChoiceDelta& delta);
  /// Adds one token to the delta; the stop string when its text completes one.
  std::optional<std::string> push(const model::SampledToken& token, bool with_text, ChoiceDelta& delta);
  TokenDelta seen(model::TokenId token) const;
  model::text::StopMatcher::Occurrence occurrence() const;
  void split(std::string_view text, ChoiceDelta& delta);
  void flush(ChoiceDelta& delta);
  void send(ChoiceDelta delta, Effects& effects);
  void end(ChoiceEnd why, std::optional<model::StepError> error, Effects& effects);
  void take(model::text::ReasoningSplitter::Piece piece, ChoiceDelta& delta);

  TextSettings settings_;
  std::optional<model::text::Detokenizer> detokenizer_;
  std::vector<model::SampledToken> prompt_;  ///< how likely each prompt token but the first was
  model::text::StopMatcher stop_matcher_;
  model::text::ReasoningSplitter splitter_;
  model::Epoch token_epoch_ = 0;
  std::int32_t tokens_seen_ = 0;
  std::int32_t acknowledged_ = 0;
  std::int32_t reasoning_tokens_ = 0;
  std::int32_t undecided_tokens_ = 0;  ///< whose text the splitter still holds
  std::optional<Watch> watch_;
  bool ended_ = false;
};

}  // namespace actors
