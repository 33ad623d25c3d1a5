#include "http/openai/chat_request.h"
#include "http/openai/completion_request.h"
#include "tests/fuzz/target.h"
#include "tests/http/fake_engine.h"
#include "tests/http/fake_text.h"

namespace {

const http::openai::RequestContext& context() {
  static const auto served = [] {
    auto model = http::fake_model();
    model->tokenizer = std::make_shared<http::ByteTokenizer>();
    model->chat_template = std::make_shared<http::EchoTemplate>();
    return model;
  }();
  static const http::openai::RequestContext made = [] {
    http::openai::RequestContext made;
    made.served = served.get();
    made.request_id = "id";
    return made;
  }();
  return made;
}

void check(const model::Result<http::openai::ParsedRequest, model::RequestError>& parsed) {
  if (!parsed.ok()) {
    fuzzing::require(!parsed.error().what.empty());
    return;
  }
  const actors::GenerateRequest& generate = *parsed->generate;
  fuzzing::require(!generate.prompts.empty() && generate.n >= 1 && generate.stop.size() <= 16);
  fuzzing::require(!generate.max_tokens || *generate.max_tokens >= 0);
}

}  // namespace

/// The body of a chat request and, the same bytes, of a completion request.
void fuzz(std::string_view input) {
  check(http::openai::parse_chat_request(std::string(input), context()));
  check(http::openai::parse_completion_request(std::string(input), context()));
}
