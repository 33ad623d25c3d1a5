#pragma once

#include <cstdint>
#include <string_view>

namespace actors {

enum class Role : std::uint8_t { health, gpu_stream, scheduler, encoder, request, sequence };
enum class Cause : std::uint8_t { normal, failure };
enum class Decision : std::uint8_t { forget, fail_request, exit_process };

constexpr std::string_view to_string(Role role) {
  switch (role) {
    case Role::health:
      return "health";
    case Role::gpu_stream:
      return "gpu_stream";
    case Role::scheduler:
      return "scheduler";
    case Role::encoder:
      return "encoder";
    case Role::request:
      return "request";
    case Role::sequence:
      break;
  }
  return "sequence";
}

/// Who dies with whom. A request's failure is its own (its client gets an error, its pages come back);
/// without one of the others nobody can be served.
constexpr Decision decide(Role role, Cause cause) {
  if (cause == Cause::normal) return Decision::forget;
  return role == Role::request || role == Role::sequence ? Decision::fail_request : Decision::exit_process;
}

}  // namespace actors
