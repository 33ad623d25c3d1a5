#pragma once

#include <string>
#include <string_view>
#include <utility>
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

/// What ends a choice that was running.
using EngineError = std::variant<StepError, FatalError>;

/// refused → the step, lost → the process.
inline EngineError from_device(gpu::DeviceError error) {
  if (error.kind == gpu::DeviceError::Kind::lost) return FatalError{std::move(error.what)};
  return StepError{std::move(error.what)};
}

// What becomes of an error where somebody outside sees it. From here on down, and nowhere else: statuses,
// types and codes of the error object, the finish reason of choices that ran, exit codes.

struct Verdict {
  int http_status = 500;
  std::string_view type = "server_error";  ///< of the error object
  std::string_view code;                   ///< of the error object, where the error itself names none
  /// Of a choice that ran: no error has another.
  static constexpr FinishReason finish = FinishReason::error;
};
constexpr Verdict verdict(RequestError::Kind kind) {
  using Kind = RequestError::Kind;
  switch (kind) {
    case Kind::invalid:
      return {400, "invalid_request_error", ""};
    case Kind::too_long:
      return {400, "invalid_request_error", "context_length_exceeded"};
    case Kind::model_not_found:
      return {404, "invalid_request_error", "model_not_found"};
    case Kind::unsupported:
      return {501, "invalid_request_error", "not_implemented"};
    case Kind::overloaded:
      return {429, "rate_limit_exceeded", "rate_limit_exceeded"};
    case Kind::unavailable:
      return {503, "server_error", "overloaded"};
    case Kind::internal:
      break;
  }
  return {500, "server_error", "engine_error"};
}
constexpr Verdict verdict(const StepError&) { return {500, "server_error", "engine_error"}; }
constexpr Verdict verdict(const FatalError&) { return {503, "server_error", "gpu_fault"}; }
inline Verdict verdict(const EngineError& error) {
  return std::visit([](const auto& e) { return verdict(e); }, error);
}
inline const std::string& what(const EngineError& error) {
  return std::visit([](const auto& e) -> const std::string& { return e.what; }, error);
}

template <class Error>
constexpr FinishReason finish_reason(const Error& error) {
  return decltype(verdict(error))::finish;
}

/// To a request that comes, or has not begun, when the process is lost.
inline RequestError refused_by(const FatalError& error) {
  return {RequestError::Kind::unavailable, error.what, "", std::string(verdict(error).code)};
}

inline constexpr int kExitDone = 0;
inline constexpr int kExitStart = 1;         ///< a LoadError, or whatever else kept it from becoming ready
inline constexpr int kExitUsage = 2;         ///< a command line that cannot be read
inline constexpr int kExitFatal = 70;        ///< a FatalError
inline constexpr int kExitSignalBase = 128;  ///< plus the signal that cut the drain

}  // namespace model
