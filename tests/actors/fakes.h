#pragma once

#include <chrono>
#include <condition_variable>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "actors/engine.h"
#include "actors/response_sink.h"
#include "model/text/chat_template.h"
#include "model/text/tokenizer.h"

namespace actors::testing {

/// One token a byte, ids 0…255; 256 is the end of text, special.
class ByteTokenizer final : public model::text::Tokenizer {
 public:
  static constexpr model::TokenId kEnd = 256;
  std::vector<model::TokenId> encode(std::string_view text,
                                     std::span<const model::text::ByteRange>) const override {
    return encode_ordinary(text);
  }
  std::vector<model::TokenId> encode_ordinary(std::string_view text) const override {
    std::vector<model::TokenId> ids;
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }
  std::string_view bytes(model::TokenId id) const override {
    static const auto table = [] {
      std::vector<std::string> bytes;
      for (int i = 0; i < 256; ++i) bytes.emplace_back(1, static_cast<char>(i));
      bytes.emplace_back("<|end|>");
      return bytes;
    }();
    return id >= 0 && id < size() ? std::string_view(table[static_cast<std::size_t>(id)])
                                  : std::string_view();
  }
  std::string decode(std::span<const model::TokenId> ids, bool) const override {
    std::string text;
    for (const auto id : ids) text += bytes(id);
    return text;
  }
  std::int32_t size() const override { return 257; }
  bool is_known(model::TokenId id) const override { return id >= 0 && id < size(); }
  bool is_special(model::TokenId id) const override { return id == kEnd; }
  bool is_added(model::TokenId id) const override { return id == kEnd; }
  std::optional<model::TokenId> added_token(std::string_view) const override { return std::nullopt; }
};

/// The messages as they are.
class EchoTemplate final : public model::text::ChatTemplate {
 public:
  model::Result<model::text::RenderedPrompt, model::RequestError> render(
      const model::text::ChatInput& input) const override {
    if (input.messages_json == "throw") throw std::runtime_error("template broke");
    return model::text::RenderedPrompt{input.messages_json, {}};
  }
  std::string_view source() const override { return ""; }
};

inline model::ServePlan small_plan() {
  model::ServePlan plan;
  plan.max_seq_len = 256;
  plan.max_batch_size = 4;
  plan.max_prefill_tokens = 128;
  plan.chunk_width = 128;
  plan.block_size = 16;
  plan.pages_per_sequence = 16;
  plan.num_pages = 64;
  plan.num_state_slots = 4;
  plan.vocab_size = 257;
  return plan;
}

inline std::shared_ptr<ServedModel> small_model() {
  auto served = std::make_shared<ServedModel>();
  served->names = {"fake"};
  served->plan = small_plan();
  served->stop_tokens = {ByteTokenizer::kEnd};
  served->tokenizer = std::make_shared<ByteTokenizer>();
  served->chat_template = std::make_shared<EchoTemplate>();
  return served;
}

/// What a sink heard, in order, and by when. Shared by the sink (which the engine owns) and the test.
class Heard {
 public:
  struct Choice {
    std::string text, reasoning;
    std::vector<model::TokenId> tokens;
    std::int32_t completion_tokens = 0;
    std::vector<ChoiceEnd> ends;
  };
  struct Copy {
    std::vector<std::string> calls;  ///< "start", "delta 0", "end 0", "engine_error", "finish", "fail"
    std::optional<ResponseStart> start;
    std::map<std::int32_t, Choice> choices;
    std::optional<Usage> usage;
    std::optional<model::RequestError> failed;
    std::string error, error_code;
  };
  Copy copy() const {
    const std::lock_guard lock(mutex_);
    return heard_;
  }
  /// The terminal call, or a test failure after a generous while.
  bool await_end() { return end_.wait_for(std::chrono::seconds(60)) == std::future_status::ready; }
  /// The n-th delta of all choices.
  bool await_deltas(std::size_t n) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(60), [&] { return deltas_ >= n; });
  }

 private:
  friend class RecordingSink;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t deltas_ = 0;
  Copy heard_;
  std::promise<void> ended_;
  std::shared_future<void> end_{ended_.get_future()};
};

class RecordingSink final : public ResponseSink {
 public:
  explicit RecordingSink(std::shared_ptr<Heard> heard) : heard_(std::move(heard)) {}
  void start(const ResponseStart& start) override {
    note("start", [&](auto& h) { h.start = start; });
  }
  void delta(const ChoiceDelta& delta) override {
    note("delta " + std::to_string(delta.index), [&](auto& h) {
      auto& choice = h.choices[delta.index];
      choice.text += delta.text;
      choice.reasoning += delta.reasoning;
      for (const auto& token : delta.tokens) choice.tokens.push_back(token.token);
      choice.completion_tokens = delta.completion_tokens;
      ++heard_->deltas_;
    });
    heard_->changed_.notify_all();
  }
  void end_choice(const ChoiceEnd& end) override {
    note("end " + std::to_string(end.index), [&](auto& h) { h.choices[end.index].ends.push_back(end); });
  }
  void engine_error(const model::EngineError& error) override {
    note("engine_error", [&](auto& h) {
      h.error = model::what(error);
      h.error_code = model::verdict(error).code;
    });
  }
  void finish(const Usage& usage) override {
    note("finish", [&](auto& h) { h.usage = usage; });
    heard_->ended_.set_value();
  }
  void fail(const model::RequestError& error) override {
    note("fail", [&](auto& h) { h.failed = error; });
    heard_->ended_.set_value();
  }

 private:
  template <class Change>
  void note(std::string call, Change change) {
    const std::lock_guard lock(heard_->mutex_);
    heard_->heard_.calls.push_back(std::move(call));
    change(heard_->heard_);
  }
  std::shared_ptr<Heard> heard_;
};

inline GenerateRequest token_request(std::vector<model::TokenId> prompt,
                                     std::optional<std::int32_t> max_tokens) {
  GenerateRequest request;
  request.id = "test";
  request.prompts = {TokenPrompt{std::move(prompt)}};
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0.0F;
  return request;
}
inline GenerateRequest text_request(std::string prompt, std::optional<std::int32_t> max_tokens) {
  auto request = token_request({}, max_tokens);
  request.prompts = {TextPrompt{std::move(prompt)}};
  return request;
}

}  // namespace actors::testing
