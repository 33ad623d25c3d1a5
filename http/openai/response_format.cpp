#include "http/openai/response_format.h"

#include <simdjson.h>

#include "http/json.h"
#include "model/text/json_escape.h"

namespace http::openai {

using model::text::append_json_string;

std::string ResponseFormat::opening(const char* object) const {
  std::string out = R"({"id":)";
  append_json_string(out, head_.id);
  out += R"(,"object":")";
  out += object;
  out += R"(","created":)" + std::to_string(head_.created) + R"(,"model":)";
  append_json_string(out, head_.model);
  out += ',';
  return out;
}

std::string ResponseFormat::usage_json(const actors::Usage& usage) {
  return R"({"prompt_tokens":)" + std::to_string(usage.prompt_tokens) + R"(,"completion_tokens":)" +
         std::to_string(usage.completion_tokens) + R"(,"total_tokens":)" +
         std::to_string(usage.prompt_tokens + usage.completion_tokens) +
         R"(,"prompt_tokens_details":{"cached_tokens":)" + std::to_string(usage.cached_tokens) +
         R"(},"completion_tokens_details":{"reasoning_tokens":)" + std::to_string(usage.reasoning_tokens) +
         "}}";
}

std::string ResponseFormat::end_chunk(const actors::ChoiceEnd& end, const std::string& usage) const {
  std::string out = opening(chunk_object());
  out += R"("choices":[{"index":)" + std::to_string(end.index) + ',' + no_text() + R"(,"logprobs":null,)";
  append_end(out, end);
  out += "}]";
  append_usage_member(out, usage);
  out += '}';
  return out;
}

void ResponseFormat::close_delta(std::string& out, const actors::ChoiceDelta& delta,
                                 const std::string& usage) const {
  out += R"(,"finish_reason":null)";
  if (options_.return_token_ids) {
    out += R"(,"token_ids":)";
    append_token_ids(out, delta.tokens, delta.echoed);
  }
  out += "}]";
  append_usage_member(out, usage);
  out += '}';
}

std::string ResponseFormat::usage_chunk(const std::string& usage) const {
  return opening(chunk_object()) + R"("choices":[],"usage":)" + usage + '}';
}

std::string ResponseFormat::error_chunk(const std::string& error_object) const {
  return opening(chunk_object()) + R"("choices":[],"error":)" + error_object + '}';
}

void ResponseFormat::append_usage_member(std::string& out, const std::string& usage) const {
  if (!options_.include_usage) return;
  out += R"(,"usage":)";
  out += usage.empty() ? "null" : usage;
}

void ResponseFormat::append_end(std::string& out, const actors::ChoiceEnd& end) {
  out += R"("finish_reason":")";
  out += to_string(end.reason);
  out += R"(","stop_reason":)";
  if (const auto* text = std::get_if<std::string>(&end.stop_reason)) {
    append_json_string(out, *text);
  } else if (const auto* token = std::get_if<model::TokenId>(&end.stop_reason)) {
    out += std::to_string(*token);
  } else {
    out += "null";
  }
  if (end.stop_details.empty()) return;
  out += R"(,"stop_details":)";
  append_json_string(out, end.stop_details);
}

void ResponseFormat::append_ids(std::string& out, const std::vector<model::TokenId>& ids) {
  out += '[';
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) out += ',';
    out += std::to_string(ids[i]);
  }
  out += ']';
}

void ResponseFormat::append_token_ids(std::string& out, const std::vector<actors::TokenDelta>& tokens,
                                      std::int32_t echoed) {
  std::vector<model::TokenId> ids;
  ids.reserve(tokens.size());
  for (auto i = static_cast<std::size_t>(echoed); i < tokens.size(); ++i) ids.push_back(tokens[i].token);
  append_ids(out, ids);
}

std::string ResponseFormat::shown_token(std::string_view bytes, model::TokenId id) {
  if (bytes.empty()) return "token_id:" + std::to_string(id);
  if (simdjson::validate_utf8(bytes.data(), bytes.size())) return std::string(bytes);
  std::string out = "bytes:";
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    out += "\\x";
    out += "0123456789abcdef"[byte >> 4U];
    out += "0123456789abcdef"[byte & 0xFU];
  }
  return out;
}

std::string_view ResponseFormat::bytes_of(model::TokenId id) const {
  return tokenizer_ ? tokenizer_->bytes(id) : std::string_view();
}

}  // namespace http::openai
