#include "actors/sequence/sequence_state.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "actors/overloaded.h"

namespace actors {
namespace {

/// How many tokens go by between two acknowledgements: a small part of the window of 32, so one message
/// serves many tokens and the window never closes on an actor that keeps up.
constexpr std::int32_t kTokensPerAcknowledgement = 8;

/// A stop token that the request named is told to it; the model's own end of text is simply the end.
ChoiceEnd choice_end(std::int32_t index, const model::SequenceEnd& end) {
  if (end.asked_for) return {index, end.why, *end.stop_token, ""};
  return {index, end.why, {}, ""};
}

}  // namespace

SequenceTextState::SequenceTextState(TextSettings settings)
    : settings_(std::move(settings)),
      stop_matcher_(settings_.stop, settings_.include_stop),
      splitter_(settings_.reasoning) {
  if (settings_.tokenizer != nullptr) {
    detokenizer_.emplace(settings_.tokenizer, settings_.skip_special_tokens);
  }
  if (settings_.watch) {
    watch_.emplace(Watch{model::repetition::Detector(settings_.watch->thresholds, settings_.watch->traits),
                         RepetitionLadder(settings_.watch->ladder),
                         HoldBack(),
                         {}});
  }
}

std::vector<SequenceEffect> SequenceTextState::step(const SequenceEvent& event) {
  Effects effects;
  std::visit([&](const auto& e) { step(e, effects); }, event);
  return effects;
}

void SequenceTextState::on(const Accepted&, Effects& effects) { effects.emplace_back(TellAccepted{}); }

void SequenceTextState::on(const Refused& event, Effects& effects) {
  ended_ = true;
  effects.emplace_back(TellRefused{event.error});
}

void SequenceTextState::on(const TokensReady& event, Effects& effects) {
  if (event.token_epoch != token_epoch_) return;
  if (rolling_back()) {  // these never were; but what ended before it heard of the rollback cannot go back
    if (event.end) on(Declined{Operation::rollback, DeclineReason::NoBoundary}, InScheduler::ended, effects);
    return;
  }
  prompt_.insert(prompt_.end(), event.prompt.begin(), event.prompt.end());
  if (event.tokens.empty() && !event.end) return;  // a prompt that is being read
  ChoiceDelta delta;
  echo(delta);
  if (!settings_.generates) {
    if (!event.end) effects.emplace_back(FinishSequence{token_epoch_, 1});
    send(std::move(delta), effects);
    end({settings_.index, model::FinishReason::length, {}, ""}, std::nullopt, effects);
    return;
  }
  for (std::size_t i = 0; i < event.tokens.size(); ++i) {
    const bool is_last = i + 1 == event.tokens.size();
    const bool is_stop_token = is_last && event.end && event.end->stop_token;
    const auto matched = push(event.tokens[i], !is_stop_token || settings_.include_stop, delta);
    if (!matched) {
      // What has ended cannot be stopped or taken back any more.
      if (!event.end && !watch(event.tokens[i].token, delta, effects)) return;
      continue;
    }
    take(splitter_.finish(), delta);
    send(std::move(delta), effects);
    if (!(is_last && event.end)) effects.emplace_back(FinishSequence{token_epoch_, tokens_seen_});
    end({settings_.index, model::FinishReason::stop, *matched, ""}, std::nullopt, effects);
    return;
  }
  if (event.end) {
    flush(delta);
    send(std::move(delta), effects);
    end(choice_end(settings_.index, *event.end), std::nullopt, effects);
    return;
  }
  send(std::move(delta), effects);
  if (tokens_seen_ - acknowledged_ >= kTokensPerAcknowledgement) {
    acknowledged_ = tokens_seen_;
    effects.emplace_back(AcknowledgeTokens{token_epoch_, tokens_seen_});
  }
}

void SequenceTextState::on(const StepFailed& event, Effects& effects) {
  ChoiceDelta delta;
  echo(delta);
  flush(delta);
  send(std::move(delta), effects);
  end({settings_.index, model::finish_reason(event.error), {}, ""}, event.error, effects);
}

void SequenceTextState::on(const EndChoice& event, Effects& effects) {
  effects.emplace_back(CancelSequence{});
  ChoiceDelta delta;
  echo(delta);
  flush(delta);
  send(std::move(delta), effects);
  end({settings_.index, event.reason, {}, event.details}, std::nullopt, effects);
}

/// Taken between two steps: what was seen is exactly what the point's device half has been fed, and one more.
void SequenceTextState::on(const Captured& event, Effects& effects) {
  if (!watch_ || event.token_epoch != token_epoch_ || rolling_back()) return;
  if (event.k + 1 != num_tokens() || tokens_seen_ == 0) {
    climb(CaptureDeclined{DeclineReason::NoAuxSnapshot}, effects);
    return;
  }
  watch_->host_states.push_back(save());
  climb(PointCaptured{event.k}, effects);
}

void SequenceTextState::on(const Declined& event, Effects& effects) { on(event, InScheduler::runs, effects); }

void SequenceTextState::on(const Declined& event, InScheduler there, Effects& effects) {
  if (!watch_) return;
  if (event.operation == Operation::capture) climb(CaptureDeclined{event.reason}, effects);
  if (event.operation == Operation::rollback &&
      climb(RollbackDeclined{event.reason}, effects) == Verdict::stop)
    stop_for_repetition({}, there, effects);
}

void SequenceTextState::on(const RolledBack& event, Effects& effects) {
  if (!watch_ || watch_->ladder.rolling_back_to() != event.boundary) return;
  token_epoch_ = event.token_epoch;
  climb(RollbackDone{}, effects);
}

void SequenceTextState::on(const HoldExpired& event, Effects& effects) {
  if (watch_) climb(event, effects);
}

bool SequenceTextState::watch(model::TokenId token, ChoiceDelta& delta, Effects& effects) {
  if (!watch_) return true;
  watch_->detector.push(token);
  const TokenSeen seen{num_tokens(), watch_->detector.tail(), true};
  if (climb(seen, effects) == Verdict::stop) {
    stop_for_repetition(std::move(delta), InScheduler::runs, effects);
    return false;
  }
  if (!rolling_back()) return true;
  send(std::move(delta), effects);  // it is held: dropped when the rollback is done, said when it is declined
  return false;
}

SequenceTextState::Verdict SequenceTextState::climb(const LadderEvent& event, Effects& effects) {
  auto verdict = Verdict::go_on;
  for (const auto& effect : watch_->ladder.step(event)) {
    if (std::holds_alternative<StopForRepetition>(effect)) verdict = Verdict::stop;
    perform(effect, effects);
  }
  const auto& points = watch_->ladder.points();
  std::erase_if(watch_->host_states, [&](const model::HostState& saved) {
    return !std::binary_search(points.begin(), points.end(), saved.num_tokens() - 1);
  });
  return verdict;
}

void SequenceTextState::perform(const LadderEffect& effect, Effects& effects) {
  auto& hold = watch_->hold;
  std::visit(
      overloaded{
          [&](const AskCapture&) {
            effects.emplace_back(CaptureSequence{token_epoch_, tokens_seen_});
          },
          [&](const ReleaseRing&) { effects.emplace_back(ReleaseSequencePoints{token_epoch_}); },
          [&](const HoldEvents&) { hold.begin(); }, [&](const StartHoldTimer& e) { effects.emplace_back(e); },
          [&](const ReleaseEvents& e) { say(hold.release(e.num_tokens - settings_.prompt_tokens), effects); },
          [&](const ReleaseAllEvents&) { say(hold.release_all(), effects); },
          [&](const RollBackTo& e) {
            effects.emplace_back(RollBackSequence{token_epoch_, tokens_seen_, e.k, e.banned_at,
                                                  watch_->detector.recent(e.banned_back)});
          },
          [&](const ForgetSince& e) { forget_since(e.k); },
          [&](const CountHit& e) { effects.emplace_back(e); },
          [&](const CountRollback& e) { effects.emplace_back(e); },
          [](const StopForRepetition&) {},  // the verdict
      },
      effect);
}

void SequenceTextState::forget_since(model::Position k) {
  const auto& states = watch_->host_states;
  const auto saved = std::find_if(states.begin(), states.end(),
                                  [&](const model::HostState& s) { return s.num_tokens() == k + 1; });
  assert(saved != states.end());  // the ladder rolls back to its points alone
  restore(*saved);
  watch_->hold.drop_after(tokens_seen_);
}

void SequenceTextState::stop_for_repetition(ChoiceDelta delta, InScheduler there, Effects& effects) {
  flush(delta);
  send(std::move(delta), effects);
  if (there == InScheduler::runs) effects.emplace_back(FinishSequence{token_epoch_, tokens_seen_});
  end({settings_.index, model::FinishReason::length, {}, "repetition"}, std::nullopt, effects);
}

void SequenceTextState::say(std::vector<ChoiceDelta> deltas, Effects& effects) const {
  for (auto& delta : deltas) effects.emplace_back(SendText{std::move(delta)});
}

model::HostState SequenceTextState::save() const {
  using model::text::Detokenizer;
  assert(!settings_.echo && tokens_seen_ > 0);  // points lie behind the prompt
  return {num_tokens(),
          detokenizer_ ? std::make_shared<const Detokenizer>(*detokenizer_) : nullptr,
          std::make_shared<const model::text::StopMatcher>(stop_matcher_),
          std::make_shared<const model::text::ReasoningSplitter>(splitter_),
          nullptr,
          nullptr,
          watch_ ? std::make_shared<const model::repetition::Detector>(watch_->detector) : nullptr,
          {settings_.prompt_tokens, tokens_seen_, reasoning_tokens_, undecided_tokens_}};
}

void SequenceTextState::restore(const model::HostState& saved) {
  if (detokenizer_) detokenizer_ = *saved.detokenizer();
  stop_matcher_ = *saved.stop_matcher();
  splitter_ = *saved.reasoning();
  if (watch_) watch_->detector = *saved.repetition();
  tokens_seen_ = saved.usage().completion_tokens;
  reasoning_tokens_ = saved.usage().reasoning_tokens;
  undecided_tokens_ = saved.usage().undecided_tokens;
  acknowledged_ = std::min(acknowledged_, tokens_seen_);
}

std::optional<std::string> SequenceTextState::push(const model::SampledToken& token, bool with_text,
                                                   ChoiceDelta& delta) {
  ++tokens_seen_;
  ++undecided_tokens_;
  delta.tokens.push_back(seen(token.token));
  delta.tokens.back().logprob = token.logprob;
  delta.tokens.back().top = token.top;
  if (!detokenizer_ || !with_text) return std::nullopt;

  auto piece = stop_matcher_.push(detokenizer_->push(token.token), occurrence());
  split(piece.text, delta);
  return std::move(piece.matched);
}

/// Once, before everything else that the choice says.
void SequenceTextState::echo(ChoiceDelta& delta) {
  if (!settings_.echo) return;
  const Echo echo = *std::exchange(settings_.echo, std::nullopt);
  delta.text = echo.text;
  if (!echo.logprobs) return;
  for (std::size_t i = 0; i < echo.ids->size(); ++i) {
    delta.tokens.push_back(seen((*echo.ids)[i]));
    if (i == 0 || i > prompt_.size()) continue;
    delta.tokens.back().logprob = prompt_[i - 1].logprob;
    delta.tokens.back().top = std::move(prompt_[i - 1].top);
  }
  delta.echoed = static_cast<std::int32_t>(echo.ids->size());
  prompt_.clear();
}

TokenDelta SequenceTextState::seen(model::TokenId token) const {
  TokenDelta seen;
  seen.token = token;
  if (settings_.tokenizer != nullptr) seen.bytes = settings_.tokenizer->bytes(token);
  return seen;
}

model::text::StopMatcher::Occurrence SequenceTextState::occurrence() const {
  using Occurrence = model::text::StopMatcher::Occurrence;
  return tokens_seen_ <= settings_.min_tokens ? Occurrence::is_text : Occurrence::ends_text;
}

void SequenceTextState::split(std::string_view text, ChoiceDelta& delta) {
  take(splitter_.push(text), delta);
}

/// A token counts as reasoning when its text, or the first text after it that the splitter lets out, is.
void SequenceTextState::take(model::text::ReasoningSplitter::Piece piece, ChoiceDelta& delta) {
  if (!piece.reasoning.empty()) reasoning_tokens_ += std::exchange(undecided_tokens_, 0);
  if (!piece.content.empty()) undecided_tokens_ = 0;
  delta.reasoning += piece.reasoning;
  delta.text += piece.content;
}

/// No more tokens come: incomplete bytes become U+FFFD, what might have become a stop string or a tag is
/// text.
void SequenceTextState::flush(ChoiceDelta& delta) {
  if (!detokenizer_) return;
  auto rest = stop_matcher_.push(detokenizer_->finish(), occurrence());
  split(rest.text, delta);
  if (!rest.matched) split(stop_matcher_.finish(), delta);
  take(splitter_.finish(), delta);
}

void SequenceTextState::send(ChoiceDelta delta, Effects& effects) {
  if (delta.text.empty() && delta.reasoning.empty() && delta.tokens.empty()) return;
  delta.index = settings_.index;
  delta.completion_tokens = tokens_seen_;
  if (watch_ && watch_->hold.holds()) return watch_->hold.push(std::move(delta));
  effects.emplace_back(SendText{std::move(delta)});
}

void SequenceTextState::end(ChoiceEnd why, std::optional<model::StepError> error, Effects& effects) {
  ended_ = true;
  if (watch_) say(watch_->hold.release_all(), effects);
  effects.emplace_back(SendEnd{{std::move(why), tokens_seen_, reasoning_tokens_, std::move(error)}});
}

}  // namespace actors
