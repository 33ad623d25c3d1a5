#pragma once

#include <atomic>
#include <cstdint>

namespace bench {

/// What server and client tell each other, in memory that both processes map. The null executor opens and
/// closes the measured window at the boundary of a step; the client records what falls into it.
struct StreamMarks {
  static constexpr std::size_t kMaxGaps = 1 << 20;

  std::atomic<bool> measuring{false};
  std::atomic<std::int64_t> tokens{0};    ///< seen by the client, window or not
  std::atomic<std::int64_t> bytes{0};     ///< of answers, heads included
  std::atomic<std::int32_t> complete{0};  ///< streams that brought every token and [DONE]
  std::atomic<std::size_t> num_gaps{0};
  float gaps[kMaxGaps] = {};  ///< seconds between a stream's tokens, both seen inside the window
};

}  // namespace bench
