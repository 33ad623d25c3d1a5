#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "model/errors.h"
#include "model/ids.h"
#include "model/repetition/thresholds.h"
#include "model/sampling/sampling_params.h"
#include "model/text/chat_template.h"

namespace actors {

using ChatPrompt = model::text::ChatInput;
struct TextPrompt {
  std::string text;
};
struct TokenPrompt {
  std::vector<model::TokenId> ids;
};
using Prompt = std::variant<ChatPrompt, TextPrompt, TokenPrompt>;

/// What a prompt and a budget beyond the capacity become.
enum class Overlength { clamp, reject };

/// One HTTP request for tokens, parsed and validated by http/, API-neutral. Shared and never changed after it
/// was made.
struct GenerateRequest {
  std::string id;  ///< x-request-id, in every log line
  std::vector<Prompt>
      prompts;  ///< one for chat; completions may carry several. Choice index = prompt index * n + i
  std::int32_t n = 1;
  model::SamplingParams sampling;
  std::optional<std::int32_t> max_tokens;  ///< absent: the room that is left; 0 (with echo): the prompt alone
  Overlength overlength = Overlength::clamp;
  std::int32_t min_tokens = 0;
  bool ignore_eos = false;
  std::vector<std::string> stop;
  std::vector<model::TokenId> stop_token_ids;
  bool include_stop_str_in_output = false;
  bool skip_special_tokens = true;
  bool echo = false;     ///< each choice begins with its prompt; with logprobs, its tokens' too
  bool streams = false;  ///< what is said leaves at once
  std::optional<model::repetition::Thresholds>
      repetition_detection;      ///< its own; none: the server's watchdog, where that is on
  bool split_reasoning = false;  ///< chat: <think> … </think> becomes reasoning_content
  std::optional<std::chrono::milliseconds> timeout;  ///< resolved with --request-timeout; none: off
};

}  // namespace actors
