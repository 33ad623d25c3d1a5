#pragma once

#include <memory>
#include <optional>

#include "actors/response_sink.h"
#include "http/exchange.h"
#include "http/openai/error_body.h"
#include "http/openai/response_format.h"

namespace http::openai {

/// A request's answer as one JSON body, written when it is complete. A choice that ended with an error makes
/// the whole a 500. Called by one thread at a time; if the request's actor dies, the destructor answers 500.
class BodyWriter final : public actors::ResponseSink {
 public:
  BodyWriter(std::unique_ptr<ResponseFormat> format, std::int32_t num_choices,
             std::shared_ptr<Exchange> exchange);
  ~BodyWriter() override;

  void start(const actors::ResponseStart& start) override;
  void delta(const actors::ChoiceDelta& delta) override;
  void end_choice(const actors::ChoiceEnd& end) override;
  void engine_error(const model::EngineError& error) override;
  void finish(const actors::Usage& usage) override;
  void fail(const model::RequestError& error) override;

 private:
  void respond(Response response);

  std::unique_ptr<ResponseFormat> format_;
  std::shared_ptr<Exchange> exchange_;
  bool done_ = false;
  bool failed_ = false;
  std::optional<ApiError> error_;
  std::optional<std::int32_t> clamped_max_tokens_;
  WholeAnswer answer_;
};

}  // namespace http::openai
