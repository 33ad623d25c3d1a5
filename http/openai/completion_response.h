#pragma once

#include "http/openai/response_format.h"

namespace http::openai {

/// text_completion, whole and in chunks.
class CompletionFormat final : public ResponseFormat {
 public:
  using ResponseFormat::ResponseFormat;
  std::string whole(const WholeAnswer& answer) override;
  std::string first_chunk(std::int32_t index, const std::vector<model::TokenId>& prompt_ids,
                          const std::string& usage) override;
  bool append_delta_chunk(std::string& out, const actors::ChoiceDelta& delta,
                          const std::string& usage) override;

 private:
  const char* chunk_object() const override { return "text_completion"; }
  const char* no_text() const override { return R"("text":"")"; }
  /// `offset`: code points of the choice's text before these tokens; moved behind them.
  void append_logprobs(std::string& out, const std::vector<actors::TokenDelta>& tokens,
                       std::size_t& offset) const;

  std::vector<std::size_t> offsets_;  ///< by choice, of a stream
};

}  // namespace http::openai
