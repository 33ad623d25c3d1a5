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

std::string code_or(const model::RequestError& error, const char* fallback) {
  return error.code.empty() ? fallback : error.code;
}

}  // namespace

ApiError api_error(const model::RequestError& error) {
  using Kind = model::RequestError::Kind;
  switch (error.kind) {
    case Kind::invalid:
      return {400, error.what, "invalid_request_error", error.param, error.code};
    case Kind::too_long:
      return {400, error.what, "invalid_request_error", error.param,
              code_or(error, "context_length_exceeded")};
    case Kind::model_not_found:
      return {404, error.what, "invalid_request_error", error.param, code_or(error, "model_not_found")};
    case Kind::unsupported:
      return {501, error.what, "invalid_request_error", error.param, code_or(error, "not_implemented")};
    case Kind::overloaded:
      return {429, error.what, "rate_limit_exceeded", error.param, code_or(error, "rate_limit_exceeded")};
    case Kind::unavailable:
      return {503, error.what, "server_error", error.param, code_or(error, "overloaded")};
    case Kind::internal:
      return engine_failure(error.what, error.code);
  }
  return engine_failure(error.what, error.code);
}

ApiError engine_failure(const std::string& what, const std::string& code) {
  return {500, what.empty() ? "The engine could not finish this request." : what, "server_error", "",
          code.empty() ? "engine_error" : code};
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
