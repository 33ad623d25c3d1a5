#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "actors/response_sink.h"

namespace actors {

/// What was said and may still be taken back, in its order: text, ids, logprobs and usage of a piece wait,
/// leave and are dropped together. Places are told by the choice's completion tokens, which a piece ends
/// with.
class HoldBack {
 public:
  bool holds() const { return holds_; }
  void begin() { holds_ = true; }
  void push(ChoiceDelta delta) { held_.push_back(std::move(delta)); }

  /// What ends within the first `completion_tokens`.
  std::vector<ChoiceDelta> release(std::int32_t completion_tokens) {
    const auto last = first_after(completion_tokens);
    std::vector<ChoiceDelta> out(std::move_iterator(held_.begin()), std::move_iterator(last));
    held_.erase(held_.begin(), last);
    return out;
  }
  /// Everything, and nothing is held from here on.
  std::vector<ChoiceDelta> release_all() {
    holds_ = false;
    return std::exchange(held_, {});
  }
  void drop_after(std::int32_t completion_tokens) {
    held_.erase(first_after(completion_tokens), held_.end());
  }

 private:
  std::vector<ChoiceDelta>::iterator first_after(std::int32_t completion_tokens) {
    return std::find_if(held_.begin(), held_.end(), [=](const ChoiceDelta& delta) {
      return delta.completion_tokens > completion_tokens;
    });
  }

  bool holds_ = false;
  std::vector<ChoiceDelta> held_;
};

}  // namespace actors
