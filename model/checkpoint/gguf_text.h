#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/checkpoint/gguf_file.h"
#include "model/text/tokenizer_file.h"

namespace model {

/// What a GGUF file says about text.
struct GgufText {
  std::optional<text::TokenizerFile> tokenizer;  ///< none: the file has no vocabulary
  std::optional<std::string> chat_template;      ///< tokenizer.chat_template, else the one named "default"
  std::string special_tokens_json;               ///< {"bos_token": …}: what a template calls these tokens
  std::vector<TokenId> stop_tokens;  ///< end of text, of turn and of message, by key and by their usual names
};
/// All problems at once, each naming the file and the key.
Result<GgufText, LoadError> read_gguf_text(const GgufModel& model);

}  // namespace model
