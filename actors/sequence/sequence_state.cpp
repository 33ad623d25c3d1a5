#include "actors/sequence/sequence_state.h"

#include <utility>

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
    if (!matched) continue;
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
  effects.emplace_back(SendText{std::move(delta)});
}

void SequenceTextState::end(ChoiceEnd why, std::optional<model::StepError> error, Effects& effects) {
  ended_ = true;
  effects.emplace_back(SendEnd{{std::move(why), tokens_seen_, reasoning_tokens_, std::move(error)}});
}

}  // namespace actors
