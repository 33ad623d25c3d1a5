#include "http/openai/body_writer.h"

#include <iterator>

namespace http::openai {

BodyWriter::BodyWriter(std::unique_ptr<ResponseFormat> format, std::int32_t num_choices,
                       std::shared_ptr<Exchange> exchange)
    : format_(std::move(format)), exchange_(std::move(exchange)) {
  answer_.choices.resize(static_cast<std::size_t>(num_choices));
}

BodyWriter::~BodyWriter() {
  if (!done_) exchange_->respond(error_response(error_.value_or(engine_failure())));
}

void BodyWriter::respond(Response response) {
  if (done_) return;
  done_ = true;
  exchange_->respond(std::move(response));
}

void BodyWriter::start(const actors::ResponseStart& start) {
  answer_.prompt_ids = start.prompt_ids;
  clamped_max_tokens_ = start.clamped_max_tokens;
}

void BodyWriter::delta(const actors::ChoiceDelta& delta) {
  const auto place = static_cast<std::size_t>(delta.index);
  if (place >= answer_.choices.size()) return;
  FinishedChoice& choice = answer_.choices[place];
  choice.text += delta.text;
  choice.reasoning += delta.reasoning;
  if (!format_->needs_tokens()) return;
  choice.tokens.insert(choice.tokens.end(), delta.tokens.begin(), delta.tokens.end());
  choice.echoed += delta.echoed;
}

void BodyWriter::end_choice(const actors::ChoiceEnd& end) {
  const auto place = static_cast<std::size_t>(end.index);
  if (place >= answer_.choices.size()) return;
  answer_.choices[place].end = end;
  failed_ = failed_ || end.reason == model::FinishReason::error;
}

void BodyWriter::engine_error(const model::EngineError& error) {
  if (!error_) error_ = api_error(error);
}

void BodyWriter::finish(const actors::Usage& usage) {
  if (failed_) return respond(error_response(error_.value_or(engine_failure())));
  answer_.usage = usage;
  Response response;
  response.body = format_->whole(answer_);
  if (clamped_max_tokens_)
    response.headers.push_back({"x-atlas-max-tokens-clamped", std::to_string(*clamped_max_tokens_)});
  respond(std::move(response));
}

void BodyWriter::fail(const model::RequestError& error) { respond(error_response(api_error(error))); }

}  // namespace http::openai
