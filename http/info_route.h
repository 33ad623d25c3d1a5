#pragma once

#include <string_view>

#include "actors/engine.h"
#include "http/message.h"

namespace http {

/// GET /v1/models, GET /v1/models/{id}.
Response list_models(const actors::ServedModel& served);
Response show_model(const actors::ServedModel& served, std::string_view name);

}  // namespace http
