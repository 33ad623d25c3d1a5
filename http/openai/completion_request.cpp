#include "http/openai/completion_request.h"

namespace http::openai {
namespace {

void read_prompt_item(Fields& fields, const Json& item, const std::string& path,
                      const RequestContext& context, std::vector<actors::Prompt>& prompts) {
  if (item.is(Json::Kind::string)) {
    if (!context.served->tokenizer) {
      return fields.refuse({model::RequestError::Kind::unsupported,
                            "This model has no tokenizer; send the prompt as token ids.", path,
                            "no_tokenizer"});
    }
    prompts.emplace_back(actors::TextPrompt{std::string(item.text)});
    return;
  }
  if (!item.is(Json::Kind::array)) {
    return fields.refuse(
        path, path + " has to be a text or token ids, not " + std::string(name_of(item.kind)) + '.');
  }
  if (item.items.empty()) return fields.refuse(path, path + " is empty.");
  prompts.emplace_back(
      actors::TokenPrompt{read_token_ids(fields, item, path, context.served->config.vocab_size)});
}

void read_prompt(Fields& fields, const RequestContext& context, std::vector<actors::Prompt>& prompts) {
  const Json* prompt = fields.find("prompt");
  if (prompt == nullptr) return fields.refuse("prompt", "prompt is missing.");
  const bool many = prompt->is(Json::Kind::array) && !prompt->items.empty() &&
                    !prompt->items.front().is(Json::Kind::number);
  if (!many) return read_prompt_item(fields, *prompt, "prompt", context, prompts);
  for (std::size_t i = 0; i < prompt->items.size() && fields.ok(); ++i) {
    read_prompt_item(fields, prompt->items[i], "prompt[" + std::to_string(i) + ']', context, prompts);
  }
}

void read_unserved(Fields& fields, std::int32_t n) {
  // Choosing among more answers than are given is not served; as many as are given is no choice.
  if (fields.integer("best_of", 1, 16).value_or(n) != n) fields.refuse_unsupported("best_of");
  if (fields.string("suffix")) fields.refuse_unsupported("suffix");
}

}  // namespace

model::Result<ParsedRequest, model::RequestError> parse_completion_request(std::string body,
                                                                           const RequestContext& context) {
  auto document = Document::parse_object(std::move(body), most_values(*context.served));
  if (!document.ok()) return std::move(document).error();
  Fields fields(document->root());
  ParsedRequest parsed;
  parsed.generate = std::make_shared<actors::GenerateRequest>();
  read_shared_fields(fields, context, 0, parsed);
  read_prompt(fields, context, parsed.generate->prompts);
  read_unserved(fields, parsed.generate->n);
  if (const auto top = fields.integer("logprobs", 0, kMaxTopLogprobs)) {
    parsed.generate->sampling.num_logprobs = static_cast<std::int32_t>(*top);
  }
  parsed.generate->echo = fields.boolean("echo").value_or(false);
  if (parsed.generate->max_tokens == 0 && !parsed.generate->echo)
    fields.refuse("max_tokens", "max_tokens of 0 needs echo: true; else it has to be at least 1.");
  check_choices(fields, context, *parsed.generate);
  if (fields.error()) return *fields.error();
  return parsed;
}

}  // namespace http::openai
