#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/errors.h"
#include "model/text/tokenizer.h"

namespace model::text {

/// What a template is rendered with. JSON texts were validated by the caller: `messages` an array of objects,
/// `tools` an array or "" (none, as in transformers), `kwargs` an object or "".
struct ChatInput {
  std::string messages_json;
  std::string tools_json;
  std::string kwargs_json;  ///< chat_template_kwargs, enable_thinking among them
  bool add_generation_prompt = true;
};

struct RenderedPrompt {
  std::string text;
  std::vector<ByteRange> literal;  ///< what came out of messages, tools and kwargs rather than of the
                                   ///< template: no control tokens there
};

/// A model's chat template (Jinja), rendered by our own interpreter with transformers' settings: trim_blocks,
/// lstrip_blocks, tojson keeping key order and non-ASCII characters, raise_exception, strftime_now,
/// bos_token/eos_token… Immutable; any thread. Bounded in steps, depth and output bytes: a template that
/// exceeds a bound, raises, or fails is a RequestError (400) that carries its message.
class ChatTemplate {
 public:
  /// `special_tokens_json`: tokenizer_config.json, whose bos_token, eos_token, … become variables; "" for
  /// none.
  static Result<std::shared_ptr<const ChatTemplate>, LoadError> parse(std::string_view source,
                                                                      std::string_view special_tokens_json,
                                                                      std::string_view file);
  virtual ~ChatTemplate() = default;
  virtual Result<RenderedPrompt, RequestError> render(const ChatInput& input) const = 0;
  virtual std::string_view source() const = 0;
};

/// Whether a rendered prompt ends inside an open <think>: the model's first text is then reasoning.
bool ends_in_open_thought(std::string_view prompt);

}  // namespace model::text
