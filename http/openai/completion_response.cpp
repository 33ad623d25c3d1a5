#include "http/openai/completion_response.h"

#include <algorithm>
#include <unordered_set>

#include "http/json.h"
#include "model/text/json_escape.h"

namespace http::openai {

using model::text::append_json_string;

namespace {

/// Code points that begin in these bytes.
std::size_t num_code_points(std::string_view bytes) {
  return static_cast<std::size_t>(std::count_if(
      bytes.begin(), bytes.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

}  // namespace

void CompletionFormat::append_logprobs(std::string& out, const std::vector<actors::TokenDelta>& tokens,
                                       std::size_t& offset) const {
  if (num_logprobs_ < 0) {
    out += "null";
    return;
  }
  std::string values, tops, offsets;
  out += R"({"tokens":[)";
  for (const auto& token : tokens) {
    if (&token != tokens.data()) {
      for (std::string* list : {&out, &values, &tops, &offsets}) *list += ',';
    }
    append_json_string(out, shown_token(token.bytes, token.token));
    offsets += std::to_string(offset);
    offset += num_code_points(token.bytes);
    if (!token.logprob) {
      values += "null";
      tops += "null";
      continue;
    }
    append_float(values, *token.logprob);
    tops += '{';
    std::unordered_set<std::string> shown;  // a name given twice would be read as one
    const auto show = [&](std::string name, model::TokenId id, float logprob) {
      if (shown.contains(name)) name = "token_id:" + std::to_string(id);
      if (!shown.empty()) tops += ',';
      append_json_string(tops, name);
      tops += ':';
      append_float(tops, logprob);
      shown.insert(std::move(name));
    };
    bool sampled_among_them = false;
    for (const auto& other : token.top) {
      show(shown_token(bytes_of(other.token), other.token), other.token, other.logprob);
      sampled_among_them = sampled_among_them || other.token == token.token;
    }
    // The sampled token is always listed, so there may be one more than asked for.
    if (!sampled_among_them && !token.top.empty())
      show(shown_token(token.bytes, token.token), token.token, *token.logprob);
    tops += '}';
  }
  out += R"(],"token_logprobs":[)" + values + R"(],"top_logprobs":[)" + tops + R"(],"text_offset":[)" +
         offsets + "]}";
}

std::string CompletionFormat::whole(const WholeAnswer& answer) {
  std::string out = opening("text_completion");
  out += R"("choices":[)";
  for (std::size_t i = 0; i < answer.choices.size(); ++i) {
    const FinishedChoice& choice = answer.choices[i];
    if (i > 0) out += ',';
    out += R"({"index":)" + std::to_string(i) + R"(,"text":)";
    append_json_string(out, choice.text);
    out += R"(,"logprobs":)";
    std::size_t offset = 0;
    append_logprobs(out, choice.tokens, offset);
    out += ',';
    append_end(out, choice.end);
    if (options_.return_token_ids) {
      out += R"(,"token_ids":)";
      append_token_ids(out, choice.tokens, choice.echoed);
      const std::size_t prompt = i / static_cast<std::size_t>(n_);
      if (prompt < answer.prompt_ids.size()) {
        out += R"(,"prompt_token_ids":)";
        append_ids(out, answer.prompt_ids[prompt]);
      }
    }
    out += '}';
  }
  out += R"(],"usage":)" + usage_json(answer.usage) + '}';
  return out;
}

std::string CompletionFormat::first_chunk(std::int32_t index, const std::vector<model::TokenId>& prompt_ids,
                                          const std::string& usage) {
  if (!options_.return_token_ids) return "";
  std::string out = opening(chunk_object());
  out += R"("choices":[{"index":)" + std::to_string(index) +
         R"(,"text":"","logprobs":null,"finish_reason":null,"prompt_token_ids":)";
  append_ids(out, prompt_ids);
  out += "}]";
  append_usage_member(out, usage);
  out += '}';
  return out;
}

bool CompletionFormat::append_delta_chunk(std::string& out, const actors::ChoiceDelta& delta,
                                          const std::string& usage) {
  const bool tokens = !delta.tokens.empty() && needs_tokens();
  if (delta.text.empty() && delta.reasoning.empty() && !tokens) return false;
  out += chunk_opening();
  out += R"("choices":[{"index":)";
  out += std::to_string(delta.index);
  out += R"(,"text":)";
  append_json_string(out, delta.reasoning.empty() ? delta.text : delta.reasoning + delta.text);
  out += R"(,"logprobs":)";
  const auto place = static_cast<std::size_t>(delta.index);
  if (offsets_.size() <= place) offsets_.resize(place + 1);
  append_logprobs(out, delta.tokens, offsets_[place]);
  close_delta(out, delta, usage);
  return true;
}

}  // namespace http::openai
