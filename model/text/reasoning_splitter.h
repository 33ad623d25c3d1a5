#pragma once

#include <string>
#include <string_view>

namespace model::text {

/// Splits generated text at <think> … </think> into reasoning and content, tags removed, across piece
/// boundaries, holding back what may become a tag. The template may have opened the thought already
/// (Start::inside); otherwise <think> counts only as the first thing said. White space (ASCII) directly
/// around the tags belongs to neither; a thought that is never closed is reasoning to its last byte. A value,
/// part of HostState.
class ReasoningSplitter {
 public:
  enum class Start { outside, inside, disabled };
  explicit ReasoningSplitter(Start start = Start::disabled);

  struct Piece {
    std::string reasoning;
    std::string content;
  };
  Piece push(std::string_view text);
  Piece finish();

 private:
  // before → after_open → reasoning → after_close → content; before → content where no tag opens the text
  enum class Where { before, after_open, reasoning, after_close, content };
  bool advance(Piece& piece);

  Where where_;
  std::string held_;
};

}  // namespace model::text
