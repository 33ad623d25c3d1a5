#include "http/openai/error_body.h"

#include "model/text/json_escape.h"

namespace http::openai {
namespace {

void append_text_or_null(std::string& out, const std::string& text) {
  if (text.empty()) {
    out += "null";
  } else {
    model::text::append_json_string(out, text);
  }
}

ApiError made_of(const model::Verdict& verdict, const std::string& what) {
  return {verdict.http_status, what, std::string(verdict.type), "", std::string(verdict.code)};
}

}  // namespace

ApiError api_error(const model::RequestError& error) {
  ApiError made = made_of(model::verdict(error.kind), error.what);
  made.param = error.param;
  if (!error.code.empty()) made.code = error.code;
  return made;
}

ApiError api_error(const model::EngineError& error) {
  return made_of(model::verdict(error), model::what(error));
}

ApiError engine_failure() {
  return api_error(model::EngineError(model::StepError{"The engine could not finish this request."}));
}

std::string error_object(const ApiError& error) {
  std::string out = R"({"message":)";
  model::text::append_json_string(out, error.message);
  out += R"(,"type":)";
  model::text::append_json_string(out, error.type);
  out += R"(,"param":)";
  append_text_or_null(out, error.param);
  out += R"(,"code":)";
  append_text_or_null(out, error.code);
  out += '}';
  return out;
}

Response error_response(const ApiError& error) {
  Response response;
  response.status = error.status;
  response.body = R"({"error":)" + error_object(error) + '}';
  if (error.status == 429 || error.status == 503)
    response.headers.push_back({"Retry-After", error.code == "model_loading" ? "2" : "1"});
  if (error.status == 401) response.headers.push_back({"WWW-Authenticate", "Bearer"});
  return response;
}

}  // namespace http::openai
