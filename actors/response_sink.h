#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "model/errors.h"
#include "model/ids.h"
#include "model/runner/step_plan.h"

namespace actors {

/// One generated token as far as the client may see it.
struct TokenDelta {
  model::TokenId token = 0;
  std::string bytes;             ///< raw bytes of the token
  std::optional<float> logprob;  ///< with top, when the request asked for logprobs; nothing comes before a
                                 ///< prompt's first token, so it has none
  std::vector<model::TopLogprob> top;
};
/// A piece of one choice. Text, ids and logprobs leave together and in order; text may lag behind ids (a
/// split code point, a possible stop string).
struct ChoiceDelta {
  std::int32_t index = 0;
  std::string text;
  std::string reasoning;
  std::vector<TokenDelta> tokens;
  std::int32_t completion_tokens = 0;  ///< of this choice so far (continuous usage)
  std::int32_t echoed = 0;             ///< how many of `tokens`, at their begin, are the prompt's
};
/// Exactly one per choice.
struct ChoiceEnd {
  std::int32_t index = 0;
  model::FinishReason reason = model::FinishReason::error;  ///< what nobody said ended well did not
  std::variant<std::monostate, std::string, model::TokenId>
      stop_reason;           ///< the stop string or token that ended it
  std::string stop_details;  ///< which guard, for length and error
};
struct Usage {
  std::int32_t prompt_tokens = 0;  ///< of all prompts
  std::int32_t completion_tokens = 0;
  std::int32_t cached_tokens = 0;
  std::int32_t reasoning_tokens = 0;
};
/// Known before the first token: everything was validated and admitted, so a stream may be opened.
struct ResponseStart {
  std::vector<std::vector<model::TokenId>> prompt_ids;  ///< per prompt, for return_token_ids and usage
  std::optional<std::int32_t> clamped_max_tokens;       ///< header x-atlas-max-tokens-clamped
};

/// What a request needs of a connection; http/ implements it per API and transport. Called by its
/// request's Outlet alone, one call at a time and in this order: fail(RequestError) | start, delta*,
/// end_choice (one per choice), finish. An engine error after start comes as end_choice{error} per running
/// choice and one engine_error before finish. Never blocks; the sink hands bytes to its connection's thread.
class ResponseSink {
 public:
  virtual ~ResponseSink() = default;
  virtual void start(const ResponseStart& start) = 0;
  virtual void delta(const ChoiceDelta& delta) = 0;
  virtual void end_choice(const ChoiceEnd& end) = 0;
  /// What ended one or more choices with `error`: an HTTP status when nothing was sent (non-stream), a
  /// top-level error object in a stream.
  virtual void engine_error(const model::EngineError& error) = 0;
  virtual void finish(const Usage& usage) = 0;
  virtual void fail(const model::RequestError& error) = 0;  ///< before start only; terminal
};

}  // namespace actors
