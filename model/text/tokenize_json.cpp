#include "model/text/tokenize_json.h"

#include <simdjson.h>

#include <limits>

#include "model/text/json_escape.h"

namespace model::text {
namespace {

using simdjson::SUCCESS;

RequestError invalid(std::string what, std::string param) {
  return {RequestError::Kind::invalid, std::move(what), std::move(param), {}};
}

std::string tokens_answer(const std::vector<TokenId>& ids) {
  std::string out = "{\"tokens\":[";
  for (std::size_t i = 0; i < ids.size(); ++i) out.append(i == 0 ? "" : ",").append(std::to_string(ids[i]));
  return out + "],\"count\":" + std::to_string(ids.size()) + "}";
}

std::string error_answer(const RequestError& error) {
  std::string out = "{\"error\":{\"message\":";
  append_json_string(out, error.what);
  out += ",\"type\":\"invalid_request_error\",\"param\":";
  if (error.param.empty()) {
    out += "null";
  } else {
    append_json_string(out, error.param);
  }
  return out + ",\"code\":null}}";
}

Result<std::vector<TokenId>, RequestError> read_ids(const Tokenizer& tokenizer,
                                                    simdjson::dom::element value) {
  simdjson::dom::array list;
  if (value.get(list) != SUCCESS) return invalid("tokens is not a list of integers", "tokens");
  std::vector<TokenId> ids;
  for (const simdjson::dom::element item : list) {
    const std::string place = "tokens[" + std::to_string(ids.size()) + "]";
    std::int64_t id = 0;
    if (item.get(id) != SUCCESS) return invalid(place + " is not an integer", "tokens");
    if (id < 0 || id > std::numeric_limits<TokenId>::max() || !tokenizer.is_known(static_cast<TokenId>(id)))
      return invalid(place + " is " + std::to_string(id) + ", which is no id of this tokenizer", "tokens");
    ids.push_back(static_cast<TokenId>(id));
  }
  return ids;
}

Result<std::string, RequestError> answer(const Tokenizer& tokenizer, std::string_view json_line) {
  simdjson::dom::parser parser;
  simdjson::dom::element document;
  simdjson::dom::object request;
  if (const auto error = parser.parse(json_line.data(), json_line.size()).get(document); error != SUCCESS)
    return invalid(std::string("the line cannot be read as JSON: ") + simdjson::error_message(error), {});
  if (document.get(request) != SUCCESS) return invalid("the line is not a JSON object", {});
  const auto prompt = request["prompt"], tokens = request["tokens"], skip = request["skip_special_tokens"];
  const bool has_prompt = prompt.error() == SUCCESS, has_tokens = tokens.error() == SUCCESS;
  if (has_prompt == has_tokens)
    return invalid("give either prompt or tokens", has_prompt ? "tokens" : "prompt");
  if (has_prompt) {
    std::string_view text;
    if (prompt.get(text) != SUCCESS) return invalid("prompt is not a string", "prompt");
    return tokens_answer(tokenizer.encode(text));
  }
  bool skip_special = false;
  if (skip.error() == SUCCESS && skip.get(skip_special) != SUCCESS)
    return invalid("skip_special_tokens is not true or false", "skip_special_tokens");
  const auto ids = read_ids(tokenizer, tokens.value_unsafe());
  RETURN_IF_ERROR(ids);
  std::string out = "{\"prompt\":";
  append_json_string(out, tokenizer.decode(*ids, skip_special));
  return out + "}";
}

}  // namespace

std::string answer_tokenize_line(const Tokenizer& tokenizer, std::string_view json_line) {
  const auto answered = answer(tokenizer, json_line);
  return answered ? *answered : error_answer(answered.error());
}

}  // namespace model::text
