#pragma once

#include <string>

#include "http/openai/fields.h"

namespace http::openai {

/// `messages` as a template reads them: a JSON array of objects with text content. Parts are joined,
/// "developer" becomes the older "system", a missing content of a tool turn becomes "". Other members are
/// passed on as they were written.
std::string read_messages(Fields& fields);

/// `tools` as JSON text, "" when absent or empty; each has to be an object with a function of a name.
std::string read_tools(Fields& fields);

/// chat_template_kwargs with the operator's defaults below it, enable_thinking and reasoning_effort above it;
/// "" when there is none. An effort of "none" turns thinking off unless enable_thinking says otherwise.
std::string read_template_kwargs(Fields& fields, const std::string& defaults);

}  // namespace http::openai
