#include "model/arch/known_answer.h"

#include "model/arch/config_reader.h"

namespace model {

Result<KnownAnswer, LoadError> parse_known_answer(std::string_view json, std::string_view file,
                                                  std::int32_t vocab_size) {
  LoadError error;
  KnownAnswer answer;
  simdjson::dom::parser parser;
  if (const auto object = parse_object(parser, json, file, error.problems)) {
    ConfigReader reader(file, "", *object, error.problems);
    const IntegerRange token{0, vocab_size - 1};
    answer.prompt = reader.integers("prompt", token);
    answer.tokens = reader.integers("tokens", token);
    reader.require({"prompt"}, !answer.prompt.empty(), "has to be a list of token ids");
    reader.require({"tokens"}, !answer.tokens.empty(), "has to be a list of token ids");
  }
  if (!error.problems.empty()) return error;
  return answer;
}

}  // namespace model
