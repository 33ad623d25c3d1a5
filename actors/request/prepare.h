#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/engine.h"
#include "actors/generate_request.h"
#include "model/errors.h"

namespace actors {

/// One prompt, encoded and admitted.
struct PreparedPrompt {
  std::shared_ptr<const std::vector<model::TokenId>> ids;
  std::int32_t max_tokens = 1;  ///< what may be generated: asked for, clamped to the room, or the room
  bool clamped = false;
  bool in_open_thought = false;  ///< the template opened <think> at its end
  std::string text{};            ///< of the prompt, when it is echoed
};

/// Text above this many bytes is rendered and encoded on the encoder's own thread, so that a pool thread
/// never stalls on it.
constexpr std::size_t kInlineTextBytes = 64 * 1024;
std::size_t text_bytes(const Prompt& prompt);
std::size_t text_bytes(const GenerateRequest& request);

/// The encoder's queue is full.
model::RequestError too_many_texts();

/// Renders (chat) and encodes. Pure; any thread.
model::Result<Engine::Encoded, model::RequestError> encode_prompt(const ServedModel& served,
                                                                  const Prompt& prompt);

/// What the ServePlan lets a prompt have. Refused: empty, a token id outside the vocabulary, no room for one
/// token beside the prompt, or for max_tokens where they may not be clamped.
model::Result<PreparedPrompt, model::RequestError> admit_prompt(const ServedModel& served,
                                                                std::vector<model::TokenId> ids,
                                                                std::optional<std::int32_t> max_tokens,
                                                                Overlength overlength = Overlength::clamp);

/// All prompts of a request, or the first error.
model::Result<std::vector<PreparedPrompt>, model::RequestError> prepare(const ServedModel& served,
                                                                        const GenerateRequest& request);

}  // namespace actors
