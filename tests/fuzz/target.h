#pragma once

#include <string_view>

/// What a target is run with: one input, any bytes. Returns when everything that was made of it is freed
/// again.
void fuzz(std::string_view input);

namespace fuzzing {

/// Ends the process, and with it the run, where a property does not hold.
inline void require(bool holds) {
  if (!holds) __builtin_trap();
}

/// Everything up to the first zero byte, taken off the front of `input`.
inline std::string_view take_part(std::string_view& input) {
  const std::size_t end = input.find('\0');
  const std::string_view part = input.substr(0, end);
  input.remove_prefix(end == std::string_view::npos ? input.size() : end + 1);
  return part;
}

}  // namespace fuzzing
