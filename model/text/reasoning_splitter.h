#pragma once

#include <string>
#include <string_view>

namespace model::text {

/// Splits generated text at <think> … </think> into reasoning and content, tags removed, across piece boundaries, holding back what may become a tag. The
/// template may have opened the thought already (`starts_inside`). White space directly around the tags belongs to neither. A value, part of HostState.
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
  enum class Where { before, reasoning, after_tag, content };
  Where where_;
  std::string held_;
};

}  // namespace model::text
