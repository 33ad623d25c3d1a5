#pragma once

#include <array>
#include <memory>
#include <string>

#include "model/text/chat_template.h"
#include "model/text/tokenizer.h"

namespace http {

/// Token i is the byte i.
class ByteTokenizer final : public model::text::Tokenizer {
 public:
  ByteTokenizer() {
    for (std::size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = static_cast<char>(i);
  }
  std::vector<model::TokenId> encode(std::string_view text,
                                     std::span<const model::text::ByteRange>) const override {
    return {text.begin(), text.end()};
  }
  std::vector<model::TokenId> encode_ordinary(std::string_view text) const override {
    return encode(text, {});
  }
  std::string_view bytes(model::TokenId id) const override {
    return id >= 0 && id < 256 ? std::string_view(&bytes_[static_cast<std::size_t>(id)], 1)
                               : std::string_view();
  }
  std::string decode(std::span<const model::TokenId> ids, bool) const override {
    std::string text;
    for (const auto id : ids) text += bytes(id);
    return text;
  }
  std::int32_t size() const override { return 256; }
  bool is_known(model::TokenId id) const override { return id >= 0 && id < 256; }
  bool is_special(model::TokenId) const override { return false; }
  bool is_added(model::TokenId) const override { return false; }
  std::optional<model::TokenId> added_token(std::string_view) const override { return std::nullopt; }

 private:
  std::array<char, 256> bytes_{};
};

class EchoTemplate final : public model::text::ChatTemplate {
 public:
  model::Result<model::text::RenderedPrompt, model::RequestError> render(
      const model::text::ChatInput& input) const override {
    return model::text::RenderedPrompt{input.messages_json, {}};
  }
  std::string_view source() const override { return "echo"; }
};

}  // namespace http
