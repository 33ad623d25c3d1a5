#pragma once

#include "http/openai/generate_fields.h"

namespace http::openai {

/// Body of POST /v1/completions: prompt is a text, a list of texts, a list of token ids or a list of such
/// lists. Pure.
model::Result<ParsedRequest, model::RequestError> parse_completion_request(std::string body,
                                                                           const RequestContext& context);

}  // namespace http::openai
