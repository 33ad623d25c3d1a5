#pragma once

#include <cstdint>

namespace actors {

enum class Role : std::uint8_t { gpu_stream, scheduler, encoder, request, sequence };
enum class Cause : std::uint8_t { normal, failure };
enum class Decision : std::uint8_t { forget, fail_request, exit_process };

/// Who dies with whom. A request's failure is its own (its client gets an error, its pages come back);
/// without one of the others nobody can be served.
constexpr Decision decide(Role role, Cause cause) {
  if (cause == Cause::normal) return Decision::forget;
  return role == Role::request || role == Role::sequence ? Decision::fail_request : Decision::exit_process;
}

constexpr int kExitDrained = 0;
constexpr int kExitNeverReady = 1;
constexpr int kExitFatal = 70;

}  // namespace actors
