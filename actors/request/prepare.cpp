#include "actors/request/prepare.h"

#include <algorithm>
#include <string>
#include <utility>

#include "actors/overloaded.h"

namespace actors {

using model::RequestError;
using model::Result;

namespace {

RequestError no_tokenizer() {
  return {RequestError::Kind::unsupported,
          "this model has no tokenizer: only prompts of token ids are served", "prompt", "no_tokenizer"};
}

/// Where the smallest capacity of one sequence lies, and which limit that is.
struct Capacity {
  std::int64_t tokens = 0;
  const char* limit = "context";
};
Capacity capacity_of(const model::ServePlan& plan) {
  Capacity capacity{plan.max_seq_len, "context (--max-seq-len)"};
  const auto kv_tokens = std::int64_t{plan.num_pages} * plan.block_size;
  if (kv_tokens < capacity.tokens) capacity = {kv_tokens, "KV pages (--kv-cache-tokens)"};
  if (plan.qsa_tokens > 0 && plan.qsa_tokens < capacity.tokens) {
    capacity = {plan.qsa_tokens, "sparse-attention index (--qsa-max-tokens)"};
  }
  return capacity;
}

/// What an answer that repeats its prompt begins with.
std::string text_of_prompt(const ServedModel& served, const Prompt& prompt,
                           const std::vector<model::TokenId>& ids, std::string encoded) {
  if (!std::holds_alternative<TokenPrompt>(prompt)) return encoded;
  return served.tokenizer == nullptr ? "" : served.tokenizer->decode(ids, false);
}

}  // namespace

std::size_t text_bytes(const Prompt& prompt) {
  return std::visit(overloaded{
                        [](const ChatPrompt& p) {
                          return p.messages_json.size() + p.tools_json.size() + p.kwargs_json.size();
                        },
                        [](const TextPrompt& p) { return p.text.size(); },
                        [](const TokenPrompt&) { return std::size_t{0}; },
                    },
                    prompt);
}

std::size_t text_bytes(const GenerateRequest& request) {
  std::size_t bytes = 0;
  for (const auto& prompt : request.prompts) bytes += text_bytes(prompt);
  return bytes;
}

RequestError too_many_texts() {
  return {RequestError::Kind::overloaded, "too many texts wait to be encoded (--max-queue)", "",
          "rate_limit_exceeded"};
}

Result<Engine::Encoded, RequestError> encode_prompt(const ServedModel& served, const Prompt& prompt) {
  using Answer = Result<Engine::Encoded, RequestError>;
  return std::visit(overloaded{
                        [&](const ChatPrompt& p) -> Answer {
                          if (served.tokenizer == nullptr) return no_tokenizer();
                          if (served.chat_template == nullptr) {
                            return RequestError{RequestError::Kind::unsupported,
                                                "this model has no chat template", "messages",
                                                "no_chat_template"};
                          }
                          auto rendered = served.chat_template->render(p);
                          if (!rendered.ok()) return std::move(rendered).error();
                          auto ids = served.tokenizer->encode(rendered->text, rendered->literal);
                          return Engine::Encoded{std::move(rendered->text), std::move(ids)};
                        },
                        [&](const TextPrompt& p) -> Answer {
                          if (served.tokenizer == nullptr) return no_tokenizer();
                          return Engine::Encoded{p.text, served.tokenizer->encode(p.text)};
                        },
                        [](const TokenPrompt& p) -> Answer {
                          return Engine::Encoded{"", p.ids};
                        },
                    },
                    prompt);
}

Result<PreparedPrompt, RequestError> admit_prompt(const ServedModel& served, std::vector<model::TokenId> ids,
                                                  std::optional<std::int32_t> max_tokens,
                                                  Overlength overlength) {
  const auto& plan = served.plan;
  if (ids.empty()) {
    return RequestError{RequestError::Kind::invalid, "the prompt has no tokens", "prompt", ""};
  }
  const auto outside =
      std::find_if(ids.begin(), ids.end(), [&](auto id) { return id < 0 || id >= plan.vocab_size; });
  if (outside != ids.end()) {
    return RequestError{RequestError::Kind::invalid,
                        "token id " + std::to_string(*outside) + " is outside the vocabulary of " +
                            std::to_string(plan.vocab_size),
                        "prompt", ""};
  }
  const auto prompt_tokens = static_cast<std::int64_t>(ids.size());
  const auto capacity = capacity_of(plan);
  if (prompt_tokens + 1 > capacity.tokens) {
    return RequestError{RequestError::Kind::too_long,
                        "the prompt has " + std::to_string(prompt_tokens) +
                            " tokens and needs room for at least one more, the capacity is " +
                            std::to_string(capacity.tokens) + " tokens, limited by " + capacity.limit,
                        "prompt", "context_length_exceeded"};
  }
  const auto room = static_cast<std::int32_t>(capacity.tokens - prompt_tokens);
  if (overlength == Overlength::reject && max_tokens.value_or(0) > room) {
    return RequestError{RequestError::Kind::too_long,
                        "the prompt has " + std::to_string(prompt_tokens) + " tokens and max_tokens is " +
                            std::to_string(*max_tokens) + ", the capacity is " +
                            std::to_string(capacity.tokens) + " tokens, limited by " + capacity.limit,
                        "max_tokens", "context_length_exceeded"};
  }
  PreparedPrompt prepared;
  prepared.ids = std::make_shared<const std::vector<model::TokenId>>(std::move(ids));
  prepared.max_tokens = std::clamp(max_tokens.value_or(room), 1, room);
  prepared.clamped = max_tokens.has_value() && *max_tokens > room;
  return prepared;
}

Result<std::vector<PreparedPrompt>, RequestError> prepare(const ServedModel& served,
                                                          const GenerateRequest& request) {
  if (served.tokenizer == nullptr && !request.stop.empty()) {
    auto error = no_tokenizer();
    error.param = "stop";
    return error;
  }
  std::vector<PreparedPrompt> prompts;
  for (const auto& prompt : request.prompts) {
    auto encoded = encode_prompt(served, prompt);
    if (!encoded.ok()) return std::move(encoded).error();
    auto admitted = admit_prompt(served, std::move(encoded->ids), request.max_tokens, request.overlength);
    if (!admitted.ok()) {
      auto error = std::move(admitted).error();
      if (std::holds_alternative<ChatPrompt>(prompt) && error.param == "prompt") error.param = "messages";
      return error;
    }
    if (request.min_tokens > admitted->max_tokens) {
      return RequestError{RequestError::Kind::too_long,
                          "min_tokens is " + std::to_string(request.min_tokens) + ", after the prompt of " +
                              std::to_string(admitted->ids->size()) + " tokens there is room for " +
                              std::to_string(admitted->max_tokens),
                          "min_tokens", "context_length_exceeded"};
    }
    admitted->in_open_thought = std::holds_alternative<ChatPrompt>(prompt) && request.split_reasoning &&
                                model::text::ends_in_open_thought(encoded->text);
    if (request.echo)
      admitted->text = text_of_prompt(served, prompt, *admitted->ids, std::move(encoded->text));
    prompts.push_back(*std::move(admitted));
  }
  return prompts;
}

}  // namespace actors
