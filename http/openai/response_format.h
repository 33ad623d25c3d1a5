#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "actors/response_sink.h"
#include "http/openai/generate_fields.h"
#include "model/text/tokenizer.h"

namespace http::openai {

/// What every chunk of one answer repeats.
struct AnswerHead {
  std::string id;
  std::int64_t created = 0;  ///< unix seconds
  std::string model;
};

struct FinishedChoice {
  std::string text;
  std::string reasoning;
  std::vector<actors::TokenDelta> tokens;  ///< when the format needs them
  std::int32_t echoed = 0;                 ///< how many of them are the prompt's
  actors::ChoiceEnd end;
};
struct WholeAnswer {
  std::vector<FinishedChoice> choices;  ///< by index
  std::vector<std::vector<model::TokenId>> prompt_ids;
  actors::Usage usage;
};

/// How one API spells an answer, whole and in chunks. Text in, text out; one per request, used by whichever
/// thread runs its request actor.
class ResponseFormat {
 public:
  ResponseFormat(AnswerHead head, AnswerOptions options, std::int32_t n, std::int32_t num_logprobs,
                 std::shared_ptr<const model::text::Tokenizer> tokenizer)
      : head_(std::move(head)),
        options_(options),
        n_(n),
        num_logprobs_(num_logprobs),
        tokenizer_(std::move(tokenizer)) {}
  virtual ~ResponseFormat() = default;

  virtual std::string whole(const WholeAnswer& answer) = 0;

  /// `usage`: JSON of a running count, "" for none. An empty result means that there is nothing to say.
  virtual std::string first_chunk(std::int32_t index, const std::vector<model::TokenId>& prompt_ids,
                                  const std::string& usage) = 0;
  /// Once a token: appends to a buffer that is kept, false when there is nothing to say.
  virtual bool append_delta_chunk(std::string& out, const actors::ChoiceDelta& delta,
                                  const std::string& usage) = 0;
  std::string delta_chunk(const actors::ChoiceDelta& delta, const std::string& usage) {
    std::string out;
    append_delta_chunk(out, delta, usage);
    return out;
  }
  std::string end_chunk(const actors::ChoiceEnd& end, const std::string& usage) const;
  std::string usage_chunk(const std::string& usage) const;
  std::string error_chunk(const std::string& error_object) const;

  static std::string usage_json(const actors::Usage& usage);
  const AnswerOptions& options() const { return options_; }
  /// Whether an answer says anything of single tokens.
  bool needs_tokens() const { return num_logprobs_ >= 0 || options_.return_token_ids; }

 protected:
  virtual const char* chunk_object() const = 0;
  virtual const char* no_text() const = 0;  ///< the member of a choice whose chunk brings no text
  /// `{"id":…,"object":…,"created":…,"model":…,`
  std::string opening(const char* object) const;
  /// That of every chunk.
  const std::string& chunk_opening() {
    if (chunk_opening_.empty()) chunk_opening_ = opening(chunk_object());
    return chunk_opening_;
  }
  /// Closes a chunk: usage as asked for.
  void append_usage_member(std::string& out, const std::string& usage) const;
  /// What ends every delta chunk, behind its text and logprobs.
  void close_delta(std::string& out, const actors::ChoiceDelta& delta, const std::string& usage) const;
  /// `"finish_reason":…,"stop_reason":…` and, when known, stop_details.
  static void append_end(std::string& out, const actors::ChoiceEnd& end);
  static void append_ids(std::string& out, const std::vector<model::TokenId>& ids);
  /// Of the generated ones: those after the first `echoed`.
  static void append_token_ids(std::string& out, const std::vector<actors::TokenDelta>& tokens,
                               std::int32_t echoed);

  /// Text of a token as an API shows it: its own, or `bytes:\xNN…` for a part of a character, so that two
  /// parts stay two.
  static std::string shown_token(std::string_view bytes, model::TokenId id);
  std::string_view bytes_of(model::TokenId id) const;

  AnswerHead head_;
  AnswerOptions options_;
  std::int32_t n_;
  std::int32_t num_logprobs_;  ///< -1: none
  std::shared_ptr<const model::text::Tokenizer> tokenizer_;

 private:
  std::string chunk_opening_;
};

}  // namespace http::openai
