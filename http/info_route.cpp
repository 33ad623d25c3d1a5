#include "http/info_route.h"

#include <algorithm>

#include "http/openai/error_body.h"
#include "model/text/json_escape.h"

namespace http {
namespace {

std::string model_card(const actors::ServedModel& served, std::string_view name) {
  std::string out = R"({"id":)";
  model::text::append_json_string(out, name);
  out +=
      R"(,"object":"model","created":)" + std::to_string(served.created) + R"(,"owned_by":"atlas","root":)";
  model::text::append_json_string(out, served.names.front());
  out += R"(,"parent":null,"max_model_len":)" + std::to_string(served.plan.max_seq_len) + '}';
  return out;
}

}  // namespace

Response list_models(const actors::ServedModel& served) {
  std::string out = R"({"object":"list","data":[)";
  for (const std::string& name : served.names) {
    if (&name != served.names.data()) out += ',';
    out += model_card(served, name);
  }
  return {200, out + "]}"};
}

Response show_model(const actors::ServedModel& served, std::string_view name) {
  if (std::find(served.names.begin(), served.names.end(), name) != served.names.end())
    return {200, model_card(served, name)};
  return openai::error_response(
      {404, "This server does not serve that model; it serves " + served.names.front() + '.',
       "invalid_request_error", "model", "model_not_found"});
}

}  // namespace http
