#pragma once

#include "http/openai/response_format.h"

namespace http::openai {

/// chat.completion and chat.completion.chunk.
class ChatFormat final : public ResponseFormat {
 public:
  using ResponseFormat::ResponseFormat;
  std::string whole(const WholeAnswer& answer) override;
  std::string first_chunk(std::int32_t index, const std::vector<model::TokenId>& prompt_ids,
                          const std::string& usage) override;
  bool append_delta_chunk(std::string& out, const actors::ChoiceDelta& delta,
                          const std::string& usage) override;

 private:
  const char* chunk_object() const override { return "chat.completion.chunk"; }
  const char* no_text() const override { return R"("delta":{})"; }
  void append_logprobs(std::string& out, const std::vector<actors::TokenDelta>& tokens) const;
  void append_logprob(std::string& out, std::string_view bytes, model::TokenId token, float logprob) const;
};

}  // namespace http::openai
