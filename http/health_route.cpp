#include "http/health_route.h"

#include "http/json.h"
#include "model/text/json_escape.h"

namespace http {
namespace {

std::string status_json(const actors::HealthView& health) {
  using actors::ProcessState;
  std::string out;
  switch (health.state) {
    case ProcessState::starting:
      out = R"({"status":"starting","stage":)";
      model::text::append_json_string(out, health.stage);
      out += R"(,"progress":)";
      append_float(out, static_cast<float>(health.progress));
      return out + '}';
    case ProcessState::ready:
      return R"({"status":"ready"})";
    case ProcessState::draining:
      return R"({"status":"draining"})";
    case ProcessState::failing:
    case ProcessState::exited:
      out = R"({"status":"failing","reason":)";
      model::text::append_json_string(out, health.reason);
      return out + '}';
  }
  return out;
}

Response answer(const actors::HealthView& health, bool good) {
  Response response{good ? 200 : 503, status_json(health)};
  response.headers.push_back({"Cache-Control", "no-store"});
  return response;
}

}  // namespace

Response health_response(const actors::HealthView& health) {
  return answer(health, health.state == actors::ProcessState::ready);
}

Response liveness_response(const actors::HealthView& health) {
  return answer(
      health, health.state != actors::ProcessState::failing && health.state != actors::ProcessState::exited);
}

}  // namespace http
