#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace model::text {

/// Finds the first of several stop strings in text that arrives in pieces, across piece boundaries, and never
/// lets out a prefix of one. The earliest occurrence by its end wins; of those that end together, the one
/// that begins first. Every byte is looked at once (Knuth-Morris-Pratt), however repetitive text and stop
/// strings are. A value: copyable, part of HostState.
class StopMatcher {
 public:
  StopMatcher() = default;
  StopMatcher(std::vector<std::string> stops, bool include_stop);

  struct Piece {
    std::string text;                    ///< may be sent now
    std::optional<std::string> matched;  ///< the stop string that ended the text; nothing after it counts
  };
  /// What an occurrence that ends in this piece means.
  enum class Occurrence { ends_text, is_text };
  Piece push(std::string_view text, Occurrence occurrence = Occurrence::ends_text);
  /// No more text comes: what was held back is let out.
  std::string finish();
  std::size_t held_bytes() const { return held_.size(); }

 private:
  struct Stop {
    std::string text;
    std::vector<std::size_t> border;  ///< [i]: longest proper prefix of text that ends at i
  };
  void forget();

  std::shared_ptr<const std::vector<Stop>> stops_;  ///< null: none; copies share it
  std::vector<std::size_t> matched_;                ///< by stop: how much of it the text so far ends with
  bool include_stop_ = false;
  std::string held_;
};

}  // namespace model::text
