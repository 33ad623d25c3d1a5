#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/engine.h"
#include "http/exchange.h"
#include "http/openai/generate_fields.h"
#include "http/router.h"

namespace http {

struct ServiceOptions {
  openai::SamplingDefaults sampling_defaults = openai::SamplingDefaults::model;
  std::optional<std::chrono::milliseconds> request_timeout;
  std::string default_template_kwargs;  ///< JSON object, or ""
  actors::Overlength overlength = actors::Overlength::clamp;
  std::int32_t max_queue = 512;
  std::string cors_origin;            ///< "": no cross-origin fields
  std::vector<std::string> api_keys;  ///< none: open to everybody
  std::string version_json;
};

/// Everything behind the routes. Engine and health word outlive the service.
struct ServiceParts {
  std::shared_ptr<const actors::ServedModel> served;
  actors::Engine* engine = nullptr;
  const actors::HealthWord* health = nullptr;
  std::function<std::string()> metrics_text;
  /// One line a finished request: id, method, path, status, seconds. Empty: not logged.
  std::function<void(const Request&, int status, double seconds)> log;
};

/// Routes, the state of the process, keys and cross-origin fields in front of them.
Service make_service(ServiceParts parts, ServiceOptions options);

/// What a route needs: `nothing` answers whatever the process is doing.
enum class Needs { nothing, model, engine };
/// Null: go on. Else the 503 of this state.
std::optional<model::RequestError> refusal(const actors::HealthView& view, Needs needs);

}  // namespace http
