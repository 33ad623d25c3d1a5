#include "model/text/chat_template.h"

#include <simdjson.h>

#include <ctime>

#include "model/text/jinja/json.h"
#include "model/text/jinja/template.h"

namespace model::text {
namespace {

using jinja::Failure;
using jinja::Value;

/// bos_token, eos_token, …: strings, or objects with their string under `content`. They belong to the model,
/// not to the request.
jinja::Variables special_tokens(std::string_view json) {
  jinja::Variables tokens;
  if (json.empty()) return tokens;
  simdjson::dom::parser parser;
  simdjson::dom::object config;
  if (parser.parse(json.data(), json.size()).get_object().get(config)) {
    throw Failure{"the tokenizer configuration is not a JSON object"};
  }
  for (const auto& [key, value] : config) {
    if (!key.ends_with("_token")) continue;
    std::string_view content;
    if (value.get(content) == simdjson::SUCCESS || value["content"].get(content) == simdjson::SUCCESS) {
      tokens.emplace_back(key, Value::own(content));
    }
  }
  return tokens;
}

/// The request's variables, over the model's. As in transformers, tools and documents that were not given are
/// none.
jinja::Variables variables_of(jinja::Runtime& runtime, const ChatInput& input,
                              const jinja::Variables& model) {
  jinja::Variables variables = model;
  const auto set = [&](std::string_view name, Value value) {
    variables.emplace_back(name, std::move(value));
  };
  set("messages", jinja::read_json(runtime, input.messages_json));
  set("tools", input.tools_json.empty() ? Value() : jinja::read_json(runtime, input.tools_json));
  set("documents", Value());
  set("add_generation_prompt", Value(input.add_generation_prompt));
  if (input.kwargs_json.empty()) return variables;
  const Value kwargs = jinja::read_json(runtime, input.kwargs_json);
  if (!kwargs.as_dict()) throw Failure{"chat_template_kwargs is not an object"};
  for (const auto& entry : kwargs.as_dict()->entries()) {
    const auto name = entry.key.as_text()->bytes();
    if (name == "messages" || name == "tools") {
      throw Failure{"chat_template_kwargs cannot set '" + std::string(name) + "'"};
    }
    set(name, entry.value);
  }
  return variables;
}

std::string described(const Failure& failure) {
  if (failure.raised || failure.line == 0) return "chat template: " + failure.what;
  return "chat template, line " + std::to_string(failure.line) + ": " + failure.what;
}

class JinjaChatTemplate : public ChatTemplate {
 public:
  JinjaChatTemplate(std::string source, std::shared_ptr<const jinja::Template> parsed, jinja::Variables model)
      : source_(std::move(source)), template_(std::move(parsed)), model_variables_(std::move(model)) {}

  Result<RenderedPrompt, RequestError> render(const ChatInput& input) const override {
    const auto variables = [&](jinja::Runtime& runtime) {
      return variables_of(runtime, input, model_variables_);
    };
    auto text = template_->render(variables, jinja::Limits{}, std::time(nullptr));
    if (!text) return RequestError{RequestError::Kind::invalid, described(text.error()), "messages", {}};
    RenderedPrompt prompt;
    prompt.literal = text->literal();
    prompt.text = std::move(*text).take_bytes();
    return prompt;
  }

  std::string_view source() const override { return source_; }

 private:
  std::string source_;
  std::shared_ptr<const jinja::Template> template_;
  jinja::Variables model_variables_;
};

}  // namespace

Result<std::shared_ptr<const ChatTemplate>, LoadError> ChatTemplate::parse(
    std::string_view source, std::string_view special_tokens_json, std::string_view file) try {
  if (!simdjson::validate_utf8(source.data(), source.size())) throw Failure{"not UTF-8", 1};
  auto parsed = jinja::Template::parse(source);
  if (!parsed) throw Failure(parsed.error());
  return std::shared_ptr<const ChatTemplate>(
      std::make_shared<JinjaChatTemplate>(std::string(source), *parsed, special_tokens(special_tokens_json)));
} catch (const Failure& failure) {
  const std::string place = failure.line > 0 ? ":" + std::to_string(failure.line) : "";
  return LoadError{{std::string(file) + place + ": " + failure.what}};
}

bool ends_in_open_thought(std::string_view prompt) {
  const std::size_t end = prompt.find_last_not_of(" \t\r\n");
  return end != std::string_view::npos && prompt.substr(0, end + 1).ends_with("<think>");
}

}  // namespace model::text
