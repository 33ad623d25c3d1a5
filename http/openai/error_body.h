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
/// As the table of model/errors.h has it.
ApiError api_error(const model::RequestError& error);
ApiError api_error(const model::EngineError& error);
std::string error_object(const ApiError& error);  ///< the inner object
Response error_response(const ApiError& error);   ///< 429 and 503 carry Retry-After

/// Of a request that ended without a word about why.
ApiError engine_failure();

}  // namespace http::openai
