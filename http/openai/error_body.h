#pragma once

#include <string>

#include "http/message.h"
#include "model/errors.h"

namespace http::openai {

/// `{"error":{"message","type","param","code"}}`. An empty param or code is null.
struct ApiError {
  int status = 500;
  std::string message;
  std::string type = "server_error";
  std::string param;
  std::string code;
};
ApiError api_error(const model::RequestError& error);
std::string error_object(const ApiError& error);  ///< the inner object
Response error_response(const ApiError& error);   ///< 429 and 503 carry Retry-After

/// The engine failed: 500, whatever it was.
ApiError engine_failure(const std::string& what, const std::string& code);

}  // namespace http::openai
