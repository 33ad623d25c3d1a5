#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace model::text {

/// Finds the first of several stop strings in text that arrives in pieces, across piece boundaries, and never
/// lets out a prefix of one. The earliest occurrence by its end wins; of those that end together, the one
/// that begins first. A value: copyable, part of HostState.
class StopMatcher {
 public:
  StopMatcher() = default;
  StopMatcher(std::vector<std::string> stops, bool include_stop);

  struct Piece {
    std::string text;                    ///< may be sent now
    std::optional<std::string> matched;  ///< the stop string that ended the text; nothing after it counts
  };
  Piece push(std::string_view text);
  /// No more text comes: what was held back is let out.
  std::string finish();
  std::size_t held_bytes() const { return held_.size(); }

 private:
  std::vector<std::string> stops_;
  bool include_stop_ = false;
  std::string held_;
};

}  // namespace model::text
