#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/response_sink.h"
#include "http/exchange.h"
#include "http/openai/error_body.h"
#include "http/openai/response_format.h"

namespace http::openai {

std::string sse_event(const std::string& json);  ///< `data: {json}\n\n`
inline constexpr const char* kSseDone = "data: [DONE]\n\n";

/// A request's answer as server-sent events. The stream is opened by `start`, so whatever is refused before
/// is a plain HTTP status. Called by one thread at a time; if the request's actor dies, the destructor ends
/// what is open, as an error.
class SseWriter final : public actors::ResponseSink {
 public:
  SseWriter(std::unique_ptr<ResponseFormat> format, std::int32_t num_choices, std::int32_t n,
            std::shared_ptr<Exchange> exchange);
  ~SseWriter() override;

  void start(const actors::ResponseStart& start) override;
  void delta(const actors::ChoiceDelta& delta) override;
  void end_choice(const actors::ChoiceEnd& end) override;
  void engine_error(const model::EngineError& error) override;
  void finish(const actors::Usage& usage) override;
  void fail(const model::RequestError& error) override;

 private:
  void send(const std::string& json);
  std::int32_t completion_tokens() const;  ///< of all choices
  std::string running_usage() const;       ///< "" unless asked for on every chunk

  std::unique_ptr<ResponseFormat> format_;
  std::int32_t n_;
  std::shared_ptr<Exchange> exchange_;
  enum class State { waiting, streaming, done } state_ = State::waiting;
  struct Choice {
    std::int32_t tokens = 0;
    bool ended = false;
  };
  std::vector<Choice> choices_;  ///< by index
  std::int32_t prompt_tokens_ = 0;
  bool failed_ = false;  ///< a choice ended with `error`
  std::optional<ApiError> error_;
  std::optional<actors::ChoiceEnd>
      held_end_;  ///< the last choice's, when its chunk has to carry the final count
};

}  // namespace http::openai
