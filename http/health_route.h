#pragma once

#include "actors/engine.h"
#include "http/message.h"

namespace http {

/// GET /health and /readyz: 200 only while requests are served.
Response health_response(const actors::HealthView& health);
/// GET /livez: 503 once the process has to be replaced.
Response liveness_response(const actors::HealthView& health);

}  // namespace http
