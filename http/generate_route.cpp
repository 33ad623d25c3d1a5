#include "http/generate_route.h"

#include <ctime>

#include "http/openai/body_writer.h"
#include "http/openai/chat_request.h"
#include "http/openai/chat_response.h"
#include "http/openai/completion_request.h"
#include "http/openai/completion_response.h"
#include "http/openai/error_body.h"
#include "http/openai/sse_writer.h"
#include "http/service.h"

namespace http {
namespace {

std::string answer_id(const char* prefix, std::uint64_t random) {
  std::string id = prefix;
  for (int shift = 60; shift >= 0; shift -= 4) id += "0123456789abcdef"[(random >> shift) & 0xFU];
  return id;
}

}  // namespace

GenerateRoute::GenerateRoute(std::shared_ptr<const actors::ServedModel> served, actors::Engine& engine,
                             const ServiceOptions& options)
    : served_(std::move(served)), engine_(engine), random_(std::random_device{}()) {
  context_.served = served_.get();
  context_.sampling_defaults = options.sampling_defaults;
  context_.request_timeout = options.request_timeout;
  context_.default_template_kwargs = options.default_template_kwargs;
  context_.overlength = options.overlength;
  context_.max_sequences = std::int64_t{served_->plan.max_batch_size} + options.max_queue;
}

std::uint64_t GenerateRoute::random() {
  const std::lock_guard lock(random_mutex_);
  return random_();
}

openai::RequestContext GenerateRoute::context_of(const Request& request) {
  openai::RequestContext context = context_;
  context.request_id = request.id;
  context.fresh_seed = random();
  return context;
}

void GenerateRoute::chat(const Request& request, const std::shared_ptr<Exchange>& exchange) {
  answer(openai::parse_chat_request(request.body, context_of(request)), Api::chat, exchange);
}

void GenerateRoute::completions(const Request& request, const std::shared_ptr<Exchange>& exchange) {
  answer(openai::parse_completion_request(request.body, context_of(request)), Api::completions, exchange);
}

void GenerateRoute::answer(model::Result<openai::ParsedRequest, model::RequestError> parsed, Api api,
                           const std::shared_ptr<Exchange>& exchange) {
  if (!parsed.ok()) return exchange->respond(openai::error_response(openai::api_error(parsed.error())));
  const auto& generate = *parsed->generate;
  const auto num_choices = static_cast<std::int32_t>(generate.prompts.size()) * generate.n;
  openai::AnswerHead head{answer_id(api == Api::chat ? "chatcmpl-" : "cmpl-", random()), std::time(nullptr),
                          served_->names.front()};
  std::unique_ptr<openai::ResponseFormat> format;
  if (api == Api::chat) {
    format = std::make_unique<openai::ChatFormat>(std::move(head), parsed->answer, generate.n,
                                                  generate.sampling.num_logprobs, served_->tokenizer);
  } else {
    format = std::make_unique<openai::CompletionFormat>(std::move(head), parsed->answer, generate.n,
                                                        generate.sampling.num_logprobs, served_->tokenizer);
  }
  std::unique_ptr<actors::ResponseSink> sink;
  if (parsed->answer.stream) {
    sink = std::make_unique<openai::SseWriter>(std::move(format), num_choices, generate.n, exchange);
  } else {
    sink = std::make_unique<openai::BodyWriter>(std::move(format), num_choices, exchange);
  }
  const auto ticket = engine_.submit(parsed->generate, std::move(sink));
  exchange->watch({[this, ticket] { engine_.client_gone(ticket); }, [this, ticket] { engine_.pause(ticket); },
                   [this, ticket] { engine_.resume(ticket); }});
}

}  // namespace http
