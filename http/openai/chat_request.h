#pragma once

#include "http/openai/generate_fields.h"

namespace http::openai {

/// Body of POST /v1/chat/completions. Pure: every fault is an error that names its field.
model::Result<ParsedRequest, model::RequestError> parse_chat_request(std::string body,
                                                                     const RequestContext& context);

}  // namespace http::openai
