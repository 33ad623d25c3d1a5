#include "http/openai/chat_request.h"

#include "http/openai/messages.h"

namespace http::openai {
namespace {

void read_logprobs(Fields& fields, model::SamplingParams& sampling) {
  const bool wanted = fields.boolean("logprobs").value_or(false);
  const auto top = fields.integer("top_logprobs", 0, kMaxTopLogprobs);
  if (top && *top > 0 && !wanted) return fields.refuse("top_logprobs", "top_logprobs needs logprobs: true.");
  if (wanted) sampling.num_logprobs = static_cast<std::int32_t>(top.value_or(0));
}

/// Types are checked first, so that a mistake is called one; what is left is well-formed and not served.
void read_tool_fields(Fields& fields) {
  const std::string tools = read_tools(fields);
  fields.boolean("parallel_tool_calls");
  if (fields.ok() && !tools.empty()) return fields.refuse_unsupported("tools");
  const Json* choice = fields.find("tool_choice");
  if (choice == nullptr) return;
  if (choice->is(Json::Kind::object)) return fields.refuse_unsupported("tool_choice");
  const auto mode = fields.string("tool_choice");
  if (!mode || *mode == "none" || *mode == "auto") return;
  if (*mode == "required") return fields.refuse_unsupported("tool_choice");
  fields.refuse("tool_choice", "tool_choice has to be none, auto, required or an object.");
}

void read_modalities(Fields& fields) {
  if (const Json* modalities = fields.find("modalities", Json::Kind::array)) {
    for (const Json& item : modalities->items) {
      if (!item.is(Json::Kind::string) || item.text != "text") return fields.refuse_unsupported("modalities");
    }
  }
  for (const char* name : {"audio", "prediction", "web_search_options"}) {
    if (fields.find(name) != nullptr) fields.refuse_unsupported(name);
  }
  if (fields.boolean("continue_final_message").value_or(false))
    fields.refuse_unsupported("continue_final_message");
  if (fields.boolean("echo").value_or(false)) fields.refuse_unsupported("echo");
}

}  // namespace

model::Result<ParsedRequest, model::RequestError> parse_chat_request(std::string body,
                                                                     const RequestContext& context) {
  auto document = Document::parse_object(std::move(body));
  if (!document.ok()) return std::move(document).error();
  Fields fields(document->root());
  ParsedRequest parsed;
  parsed.generate = std::make_shared<actors::GenerateRequest>();
  read_shared_fields(fields, context, 1, parsed);
  read_logprobs(fields, parsed.generate->sampling);
  read_tool_fields(fields);
  read_modalities(fields);
  actors::ChatPrompt chat;
  chat.messages_json = read_messages(fields);
  chat.kwargs_json = read_template_kwargs(fields, context.default_template_kwargs);
  chat.add_generation_prompt = fields.boolean("add_generation_prompt").value_or(true);
  if (fields.error()) return *fields.error();
  if (!context.served->tokenizer || !context.served->chat_template) {
    const bool tokenizer = context.served->tokenizer != nullptr;
    return model::RequestError{model::RequestError::Kind::unsupported,
                               tokenizer ? "This model has no chat template; use /v1/completions."
                                         : "This model has no tokenizer; send token ids to /v1/completions.",
                               "", tokenizer ? "no_chat_template" : "no_tokenizer"};
  }
  parsed.generate->split_reasoning = true;
  parsed.generate->prompts.emplace_back(std::move(chat));
  check_choices(fields, context, *parsed.generate);
  if (fields.error()) return *fields.error();
  return parsed;
}

}  // namespace http::openai
