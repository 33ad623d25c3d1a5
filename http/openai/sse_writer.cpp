#include "http/openai/sse_writer.h"

#include <algorithm>
#include <numeric>

namespace http::openai {

namespace {

constexpr const char* kEventBegin = "data: ";
constexpr const char* kEventEnd = "\n\n";

}  // namespace

std::string sse_event(const std::string& json) { return kEventBegin + json + kEventEnd; }

SseWriter::SseWriter(std::unique_ptr<ResponseFormat> format, std::int32_t num_choices, std::int32_t n,
                     std::shared_ptr<Exchange> exchange)
    : format_(std::move(format)),
      n_(n),
      exchange_(std::move(exchange)),
      choices_(static_cast<std::size_t>(num_choices)) {}

SseWriter::~SseWriter() {
  if (state_ == State::waiting) exchange_->respond(error_response(engine_failure()));
  if (state_ != State::streaming) return;
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    if (!choices_[i].ended) end_choice({static_cast<std::int32_t>(i), model::FinishReason::error, {}, {}});
  }
  actors::Usage usage;
  usage.prompt_tokens = prompt_tokens_;
  usage.completion_tokens = completion_tokens();
  finish(usage);
}

std::int32_t SseWriter::completion_tokens() const {
  return std::accumulate(choices_.begin(), choices_.end(), 0,
                         [](std::int32_t sum, const Choice& choice) { return sum + choice.tokens; });
}

void SseWriter::send(const std::string& json) {
  if (!json.empty()) exchange_->send(sse_event(json));
}

std::string SseWriter::running_usage() const {
  if (!format_->options().continuous_usage) return "";
  actors::Usage usage;
  usage.prompt_tokens = prompt_tokens_;
  usage.completion_tokens = completion_tokens();
  return ResponseFormat::usage_json(usage);
}

void SseWriter::start(const actors::ResponseStart& start) {
  if (state_ != State::waiting) return;
  state_ = State::streaming;
  Response head;
  head.content_type = "text/event-stream; charset=utf-8";
  head.headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};
  if (start.clamped_max_tokens)
    head.headers.push_back({"x-atlas-max-tokens-clamped", std::to_string(*start.clamped_max_tokens)});
  exchange_->open_stream(std::move(head));
  for (const auto& ids : start.prompt_ids) prompt_tokens_ += static_cast<std::int32_t>(ids.size());
  static const std::vector<model::TokenId> kNoIds;
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    const std::size_t prompt = i / static_cast<std::size_t>(n_);
    send(format_->first_chunk(static_cast<std::int32_t>(i),
                              prompt < start.prompt_ids.size() ? start.prompt_ids[prompt] : kNoIds,
                              running_usage()));
  }
}

void SseWriter::delta(const actors::ChoiceDelta& delta) {
  const auto place = static_cast<std::size_t>(delta.index);
  if (state_ != State::streaming || place >= choices_.size() || choices_[place].ended) return;
  choices_[place].tokens = std::max(choices_[place].tokens, delta.completion_tokens);
  thread_local std::string event;  // of this worker thread: in its cache, and no memory of a stream's own
  event = kEventBegin;
  if (!format_->append_delta_chunk(event, delta, running_usage())) return;
  event += kEventEnd;
  exchange_->send(event);
}

void SseWriter::end_choice(const actors::ChoiceEnd& end) {
  const auto place = static_cast<std::size_t>(end.index);
  if (state_ != State::streaming || place >= choices_.size() || choices_[place].ended) return;
  choices_[place].ended = true;
  failed_ = failed_ || end.reason == model::FinishReason::error;
  const bool last =
      std::all_of(choices_.begin(), choices_.end(), [](const Choice& choice) { return choice.ended; });
  if (last && format_->options().continuous_usage) {
    held_end_ = end;
  } else {
    send(format_->end_chunk(end, running_usage()));
  }
}

void SseWriter::engine_error(const model::EngineError& error) {
  if (!error_) error_ = api_error(error);
}

void SseWriter::finish(const actors::Usage& usage) {
  if (state_ != State::streaming) return;
  const std::string total = ResponseFormat::usage_json(usage);
  if (held_end_) send(format_->end_chunk(*held_end_, total));
  if (failed_) send(format_->error_chunk(error_object(error_.value_or(engine_failure()))));
  if (format_->options().include_usage) send(format_->usage_chunk(total));
  exchange_->send(kSseDone);
  exchange_->close_stream();
  state_ = State::done;
}

void SseWriter::fail(const model::RequestError& error) {
  if (state_ != State::waiting) return;
  state_ = State::done;
  exchange_->respond(error_response(api_error(error)));
}

}  // namespace http::openai
