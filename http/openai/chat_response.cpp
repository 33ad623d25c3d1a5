#include "http/openai/chat_response.h"

#include "http/json.h"
#include "model/text/json_escape.h"

namespace http::openai {

using model::text::append_json_string;

/// `"token":…,"bytes":[…],"logprob":…`
void ChatFormat::append_logprob(std::string& out, std::string_view bytes, model::TokenId token,
                                float logprob) const {
  out += R"("token":)";
  append_json_string(out, shown_token(bytes, token));
  out += R"(,"bytes":[)";
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i > 0) out += ',';
    out += std::to_string(static_cast<unsigned char>(bytes[i]));
  }
  out += R"(],"logprob":)";
  append_float(out, logprob);
}

void ChatFormat::append_logprobs(std::string& out, const std::vector<actors::TokenDelta>& tokens) const {
  if (num_logprobs_ < 0) {
    out += "null";
    return;
  }
  out += R"({"content":[)";
  for (const auto& token : tokens) {
    if (&token != tokens.data()) out += ',';
    out += '{';
    append_logprob(out, token.bytes, token.token, token.logprob.value_or(0.0F));
    out += R"(,"top_logprobs":[)";
    for (const auto& other : token.top) {
      if (&other != token.top.data()) out += ',';
      out += '{';
      append_logprob(out, bytes_of(other.token), other.token, other.logprob);
      out += '}';
    }
    out += "]}";
  }
  out += R"(],"refusal":null})";
}

std::string ChatFormat::whole(const WholeAnswer& answer) {
  std::string out = opening("chat.completion");
  out += R"("choices":[)";
  for (std::size_t i = 0; i < answer.choices.size(); ++i) {
    const FinishedChoice& choice = answer.choices[i];
    if (i > 0) out += ',';
    out += R"({"index":)" + std::to_string(i) + R"(,"message":{"role":"assistant","content":)";
    append_json_string(out, choice.text);
    if (!choice.reasoning.empty()) {
      out += R"(,"reasoning_content":)";
      append_json_string(out, choice.reasoning);
    }
    out += R"(,"refusal":null},"logprobs":)";
    append_logprobs(out, choice.tokens);
    out += ',';
    append_end(out, choice.end);
    if (options_.return_token_ids) {
      out += R"(,"token_ids":)";
      append_token_ids(out, choice.tokens, choice.echoed);
    }
    out += '}';
  }
  out += R"(],"usage":)" + usage_json(answer.usage);
  if (options_.return_token_ids && !answer.prompt_ids.empty()) {
    out += R"(,"prompt_token_ids":)";
    append_ids(out, answer.prompt_ids.front());
  }
  out += '}';
  return out;
}

std::string ChatFormat::first_chunk(std::int32_t index, const std::vector<model::TokenId>& prompt_ids,
                                    const std::string& usage) {
  std::string out = opening(chunk_object());
  out += R"("choices":[{"index":)" + std::to_string(index) +
         R"(,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}])";
  if (options_.return_token_ids && index == 0) {
    out += R"(,"prompt_token_ids":)";
    append_ids(out, prompt_ids);
  }
  append_usage_member(out, usage);
  out += '}';
  return out;
}

bool ChatFormat::append_delta_chunk(std::string& out, const actors::ChoiceDelta& delta,
                                    const std::string& usage) {
  const bool tokens = !delta.tokens.empty() && needs_tokens();
  if (delta.text.empty() && delta.reasoning.empty() && !tokens) return false;
  out += chunk_opening();
  out += R"("choices":[{"index":)";
  out += std::to_string(delta.index);
  out += R"(,"delta":{)";
  if (!delta.reasoning.empty()) {
    out += R"("reasoning_content":)";
    append_json_string(out, delta.reasoning);
  }
  if (!delta.text.empty() || delta.reasoning.empty()) {
    if (!delta.reasoning.empty()) out += ',';
    out += R"("content":)";
    append_json_string(out, delta.text);
  }
  out += R"(},"logprobs":)";
  append_logprobs(out, delta.tokens);
  close_delta(out, delta, usage);
  return true;
}

}  // namespace http::openai
