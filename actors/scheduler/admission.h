#pragma once

#include <cstdint>

namespace actors {

/// What of the device is not promised to anybody.
struct Room {
  std::int32_t sequences = 0;  ///< up to max_batch_size
  std::int32_t free_slots = 0;
  std::int32_t free_pages = 0;
  std::int32_t promised_pages =
      0;  ///< reserved by admitted sequences and not granted yet; always <= free_pages
};

constexpr std::int32_t pages_for(std::int32_t tokens, std::int32_t block_size) {
  return (tokens + block_size - 1) / block_size;
}

/// Whether the head of the queue may begin. Until preemption exists a sequence reserves the pages of its
/// whole life at once, so no admitted sequence can ever wait for a page. Nobody overtakes the head: first
/// come first served, and no starvation.
constexpr bool admits(const Room& room, std::int32_t pages_needed) {
  return room.sequences > 0 && room.free_slots > 0 && room.free_pages - room.promised_pages >= pages_needed;
}

}  // namespace actors
