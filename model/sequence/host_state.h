#pragma once

#include <memory>

#include "model/ids.h"

namespace model {

namespace text {
class Detokenizer;
class StopMatcher;
class ReasoningSplitter;
}  // namespace text
namespace repetition {
class Detector;
}  // namespace repetition
class ToolCallSplitter;
class GrammarState;

/// Counts that are billed.
struct UsageState {
  std::int32_t prompt_tokens = 0, completion_tokens = 0;
  std::int32_t reasoning_tokens = 0;  ///< of the completion
  std::int32_t undecided_tokens = 0;  ///< of which the splitter does not know yet
};

/// What a sequence actor keeps of itself when its ids are `num_tokens` long: every text part as it stood
/// then. The parts are copies that nobody changes. A part that a request does not use is null by the
/// request's nature (no tokenizer, no grammar, no tools), never by omission.
class HostState {
 public:
  HostState(Position num_tokens, std::shared_ptr<const text::Detokenizer> detokenizer,
            std::shared_ptr<const text::StopMatcher> stop_matcher,
            std::shared_ptr<const text::ReasoningSplitter> reasoning,
            std::shared_ptr<const ToolCallSplitter> tool_calls, std::shared_ptr<const GrammarState> grammar,
            std::shared_ptr<const repetition::Detector> repetition, UsageState usage)
      : num_tokens_(num_tokens),
        detokenizer_(std::move(detokenizer)),
        stop_matcher_(std::move(stop_matcher)),
        reasoning_(std::move(reasoning)),
        tool_calls_(std::move(tool_calls)),
        grammar_(std::move(grammar)),
        repetition_(std::move(repetition)),
        usage_(usage) {}

  Position num_tokens() const { return num_tokens_; }
  const std::shared_ptr<const text::Detokenizer>& detokenizer() const { return detokenizer_; }
  const std::shared_ptr<const text::StopMatcher>& stop_matcher() const { return stop_matcher_; }
  const std::shared_ptr<const text::ReasoningSplitter>& reasoning() const { return reasoning_; }
  const std::shared_ptr<const ToolCallSplitter>& tool_calls() const { return tool_calls_; }
  const std::shared_ptr<const GrammarState>& grammar() const { return grammar_; }
  const std::shared_ptr<const repetition::Detector>& repetition() const { return repetition_; }
  const UsageState& usage() const { return usage_; }

 private:
  Position num_tokens_;
  std::shared_ptr<const text::Detokenizer> detokenizer_;
  std::shared_ptr<const text::StopMatcher> stop_matcher_;
  std::shared_ptr<const text::ReasoningSplitter> reasoning_;
  std::shared_ptr<const ToolCallSplitter> tool_calls_;
  std::shared_ptr<const GrammarState> grammar_;
  std::shared_ptr<const repetition::Detector> repetition_;
  UsageState usage_;
};

}  // namespace model
