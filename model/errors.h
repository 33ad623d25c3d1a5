#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "gpu/error.h"

namespace model {

using gpu::Done;
using gpu::Result;

/// One request is refused or cannot go on because of what it asks; its client is told, nobody else notices.
struct RequestError {
  enum class Kind {
    invalid,          ///< 400 invalid_request_error
    too_long,         ///< 400 context_length_exceeded
    model_not_found,  ///< 404
    unsupported,      ///< 501: a route or field that this build does not serve
    overloaded,       ///< 429: the queue is full
    unavailable,      ///< 503: loading, draining, failing (code says which)
    internal,         ///< 500: our own mistake (an exception)
  };
  Kind kind = Kind::invalid;
  std::string what;
  std::string param;  ///< the field, "" when none
  std::string code;   ///< machine-readable code of the error object, "" when none
};

struct StepError {  ///< the sequences of one step
  std::string what;
};
struct FatalError {  ///< the process
  std::string what;
};
struct LoadError {  ///< start-up: every problem found, each naming file, tensor, key or option
  std::vector<std::string> problems;
};

/// Why a choice ended. There is no path from an error to stop.
enum class FinishReason { stop, length, tool_calls, timeout, error, cancelled };
constexpr std::string_view to_string(FinishReason reason) {
  switch (reason) {
    case FinishReason::stop:
      return "stop";
    case FinishReason::length:
      return "length";
    case FinishReason::tool_calls:
      return "tool_calls";
    case FinishReason::timeout:
      return "timeout";
    case FinishReason::error:
      return "error";
    case FinishReason::cancelled:
      return "abort";
  }
  return "error";
}
constexpr FinishReason finish_reason(const StepError&) { return FinishReason::error; }
constexpr FinishReason finish_reason(const FatalError&) { return FinishReason::error; }

/// refused → the step, lost → the process.
inline std::variant<StepError, FatalError> from_device(gpu::DeviceError error) {
  if (error.kind == gpu::DeviceError::Kind::lost) return FatalError{std::move(error.what)};
  return StepError{std::move(error.what)};
}

}  // namespace model
