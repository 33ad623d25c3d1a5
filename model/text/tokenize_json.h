#pragma once

#include <string>
#include <string_view>

#include "model/text/tokenizer.h"

namespace model::text {

/// One line of `atlas tokenize FOLDER --json`: {"prompt": text} → {"tokens":[…],"count":N},
/// {"tokens":[…],"skip_special_tokens":bool} → {"prompt": text}; anything else →
/// {"error":{"message","type","param","code"}}. The answer has no line end. Added tokens in a prompt are
/// recognised: the line is the operator's own text.
std::string answer_tokenize_line(const Tokenizer& tokenizer, std::string_view json_line);

}  // namespace model::text
