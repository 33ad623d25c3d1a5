#include "http/text_route.h"

#include "http/openai/error_body.h"
#include "http/openai/generate_fields.h"
#include "http/openai/messages.h"
#include "model/text/json_escape.h"

namespace http {
namespace {

using actors::ChatPrompt;
using actors::Prompt;
using actors::TextPrompt;
using model::RequestError;
using openai::Fields;
template <class T>
using Parsed = model::Result<T, RequestError>;

RequestError no_tokenizer() {
  return {RequestError::Kind::unsupported, "This model has no tokenizer.", "", "no_tokenizer"};
}

ChatPrompt read_chat(Fields& fields, const actors::ServedModel& served, const std::string& default_kwargs) {
  ChatPrompt chat;
  chat.messages_json = openai::read_messages(fields);
  chat.tools_json = openai::read_tools(fields);
  chat.kwargs_json = openai::read_template_kwargs(fields, default_kwargs);
  chat.add_generation_prompt = fields.boolean("add_generation_prompt").value_or(true);
  if (!served.chat_template)
    fields.refuse({RequestError::Kind::unsupported, "This model has no chat template.", "messages",
                   "no_chat_template"});
  return chat;
}

Parsed<Prompt> parse_tokenize(const Request& request, const actors::ServedModel& served,
                              const std::string& default_kwargs) {
  auto document = Document::parse_object(request.body);
  if (!document.ok()) return std::move(document).error();
  Fields fields(document->root());
  openai::read_model_name(fields, served);
  Prompt prompt;
  if (fields.find("messages") != nullptr) {
    prompt = read_chat(fields, served, default_kwargs);
  } else if (const auto text = fields.string("prompt")) {
    prompt = TextPrompt{std::string(*text)};
  } else {
    fields.refuse("prompt", "prompt (or messages) is missing.");
  }
  if (fields.error()) return *fields.error();
  return prompt;
}

Parsed<Prompt> parse_template(const Request& request, const actors::ServedModel& served,
                              const std::string& default_kwargs) {
  auto document = Document::parse_object(request.body);
  if (!document.ok()) return std::move(document).error();
  Fields fields(document->root());
  openai::read_model_name(fields, served);
  Prompt prompt = read_chat(fields, served, default_kwargs);
  if (fields.error()) return *fields.error();
  return prompt;
}

struct DetokenizeRequest {
  std::vector<model::TokenId> ids;
  bool skip_special_tokens = false;
};
Parsed<DetokenizeRequest> parse_detokenize(const Request& request, const actors::ServedModel& served) {
  auto document = Document::parse_object(request.body, openai::most_values(served));
  if (!document.ok()) return std::move(document).error();
  Fields fields(document->root());
  openai::read_model_name(fields, served);
  DetokenizeRequest parsed;
  if (const Json* ids = fields.find("tokens", Json::Kind::array)) {
    parsed.ids = openai::read_token_ids(fields, *ids, "tokens", served.config.vocab_size);
  } else {
    fields.refuse("tokens", "tokens is missing.");
  }
  parsed.skip_special_tokens = fields.boolean("skip_special_tokens").value_or(false);
  if (fields.error()) return *fields.error();
  return parsed;
}

Response refused(const RequestError& error) { return openai::error_response(openai::api_error(error)); }

Response prompt_response(std::string_view text) {
  std::string out = R"({"prompt":)";
  model::text::append_json_string(out, text);
  return {200, out + '}'};
}

Response tokens_response(const actors::Engine::Encoded& encoded, std::int32_t max_seq_len) {
  std::string out = R"({"count":)" + std::to_string(encoded.ids.size()) + R"(,"max_model_len":)" +
                    std::to_string(max_seq_len) + R"(,"tokens":[)";
  for (std::size_t i = 0; i < encoded.ids.size(); ++i) {
    if (i > 0) out += ',';
    out += std::to_string(encoded.ids[i]);
  }
  return {200, out + "]}"};
}

/// Becomes true when the client leaves: its text need not be encoded any more.
std::shared_ptr<const std::atomic<bool>> left_by(Exchange& exchange) {
  auto left = std::make_shared<std::atomic<bool>>(false);
  exchange.watch({[left] { *left = true; }, nullptr, nullptr});
  return left;
}

}  // namespace

void TextRoute::tokenize(const Request& request, const std::shared_ptr<Exchange>& exchange) const {
  if (!served_->tokenizer) return exchange->respond(refused(no_tokenizer()));
  auto prompt = parse_tokenize(request, *served_, default_template_kwargs_);
  if (!prompt.ok()) return exchange->respond(refused(prompt.error()));
  engine_.encode(
      std::make_shared<const Prompt>(std::move(*prompt)), left_by(*exchange),
      [exchange, limit = served_->plan.max_seq_len](auto encoded) {
        exchange->respond(encoded.ok() ? tokens_response(*encoded, limit) : refused(encoded.error()));
      });
}

void TextRoute::detokenize(const Request& request, const std::shared_ptr<Exchange>& exchange) const {
  if (!served_->tokenizer) return exchange->respond(refused(no_tokenizer()));
  const auto parsed = parse_detokenize(request, *served_);
  if (!parsed.ok()) return exchange->respond(refused(parsed.error()));
  exchange->respond(prompt_response(served_->tokenizer->decode(parsed->ids, parsed->skip_special_tokens)));
}

void TextRoute::apply_template(const Request& request, const std::shared_ptr<Exchange>& exchange) const {
  if (!served_->tokenizer) return exchange->respond(refused(no_tokenizer()));
  auto prompt = parse_template(request, *served_, default_template_kwargs_);
  if (!prompt.ok()) return exchange->respond(refused(prompt.error()));
  engine_.encode(
      std::make_shared<const Prompt>(std::move(*prompt)), left_by(*exchange), [exchange](auto encoded) {
        exchange->respond(encoded.ok() ? prompt_response(encoded->text) : refused(encoded.error()));
      });
}

}  // namespace http
