#include "model/text/reasoning_splitter.h"

#include <algorithm>
#include <utility>

namespace model::text {
namespace {

constexpr std::string_view kOpen = "<think>";
constexpr std::string_view kClose = "</think>";
constexpr std::string_view kWhiteSpace = " \t\n\r\f\v";

void drop_leading_white_space(std::string& text) { text.erase(0, text.find_first_not_of(kWhiteSpace)); }

std::size_t without_trailing_white_space(std::string_view text) {
  const std::size_t last = text.find_last_not_of(kWhiteSpace);
  return last == std::string_view::npos ? 0 : last + 1;
}

/// How much of `text` cannot belong to a close tag, or to the white space before one, whatever follows.
std::size_t length_before_possible_close(std::string_view text) {
  for (std::size_t partial = std::min(kClose.size() - 1, text.size()); partial > 0; --partial) {
    if (text.ends_with(kClose.substr(0, partial))) {
      text.remove_suffix(partial);
      break;
    }
  }
  return without_trailing_white_space(text);
}

}  // namespace

ReasoningSplitter::ReasoningSplitter(Start start)
    : where_(start == Start::outside  ? Where::before
             : start == Start::inside ? Where::after_open
                                      : Where::content) {}

ReasoningSplitter::Piece ReasoningSplitter::push(std::string_view text) {
  Piece piece;
  held_.append(text);
  while (advance(piece)) {
  }
  return piece;
}

/// Moves what is decided from held_ to the piece; true where held_ is to be looked at again from another
/// state.
bool ReasoningSplitter::advance(Piece& piece) {
  const auto go = [this](Where next) {
    where_ = next;
    return true;
  };
  switch (where_) {
    case Where::before: {
      const std::size_t first = std::min(held_.find_first_not_of(kWhiteSpace), held_.size());
      const std::string_view said = std::string_view(held_).substr(first);
      if (said.size() < kOpen.size() && kOpen.starts_with(said)) return false;
      if (!said.starts_with(kOpen)) return go(Where::content);
      held_.erase(0, first + kOpen.size());
      return go(Where::after_open);
    }
    case Where::after_open:
      drop_leading_white_space(held_);
      return !held_.empty() && go(Where::reasoning);
    case Where::reasoning: {
      const std::size_t close = held_.find(kClose);
      const bool closed = close != std::string::npos;
      const std::string_view decided = std::string_view(held_).substr(0, close);
      const std::size_t length =
          closed ? without_trailing_white_space(decided) : length_before_possible_close(decided);
      piece.reasoning.append(held_, 0, length);
      held_.erase(0, closed ? close + kClose.size() : length);
      return closed && go(Where::after_close);
    }
    case Where::after_close:
      drop_leading_white_space(held_);
      return !held_.empty() && go(Where::content);
    case Where::content:
      piece.content += std::exchange(held_, {});
      return false;
  }
  return false;
}

ReasoningSplitter::Piece ReasoningSplitter::finish() {
  std::string rest = std::exchange(held_, {});
  if (where_ == Where::reasoning) return {std::move(rest), {}};
  return {{}, std::move(rest)};
}

}  // namespace model::text
