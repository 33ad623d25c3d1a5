#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "actors/engine.h"
#include "actors/generate_request.h"
#include "http/openai/fields.h"

namespace http::openai {

enum class SamplingDefaults { model, none };

/// What a request is judged by. Plain data; the model outlives it.
struct RequestContext {
  const actors::ServedModel* served = nullptr;
  SamplingDefaults sampling_defaults = SamplingDefaults::model;
  std::optional<std::chrono::milliseconds> request_timeout;  ///< none: no limit
  std::string default_template_kwargs;                       ///< JSON object, or ""
  actors::Overlength overlength = actors::Overlength::clamp;
  std::int64_t max_sequences = 0;  ///< that a server takes at once, running and waiting; 0: no limit
  std::string request_id;
  std::uint64_t fresh_seed = 0;  ///< for a request that gives none
};

/// How the answer is written, beside what is generated.
struct AnswerOptions {
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
  bool return_token_ids = false;
};

struct ParsedRequest {
  std::shared_ptr<actors::GenerateRequest> generate;
  AnswerOptions answer;
};

/// Fields that chat and completions share: model, sampling, limits, stops, stream options; those that are not
/// served are refused by name.
void read_shared_fields(Fields& fields, const RequestContext& context, std::int64_t least_max_tokens,
                        ParsedRequest& parsed);

/// Refuses more choices than one request may have, or than this server could ever take at once.
void check_choices(Fields& fields, const RequestContext& context, const actors::GenerateRequest& generate);

/// 404 unless the model is ours; an absent name is ours.
void read_model_name(Fields& fields, const actors::ServedModel& served);

/// Values that a body of token ids may hold: the longest prompt and all other fields beside it.
std::size_t most_values(const actors::ServedModel& served);

/// Ids inside the vocabulary; `path` names the list.
std::vector<model::TokenId> read_token_ids(Fields& fields, const Json& list, const std::string& path,
                                           std::int32_t vocab_size);

/// Most choices of one request: prompts times n.
inline constexpr std::size_t kMaxChoices = 256;
inline constexpr int kMaxTopLogprobs = 20;

}  // namespace http::openai
