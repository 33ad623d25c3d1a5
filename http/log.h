#pragma once

#include <string>

#include "http/message.h"

namespace http {

/// Makes the process's log: lines on stderr, as text or as one JSON object each.
void start_log(const std::string& level, const std::string& format);

/// One finished request (--log-requests). Status 0: the client left before it was answered.
void log_request(const Request& request, int status, double seconds);

}  // namespace http
