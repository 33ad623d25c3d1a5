#pragma once

#include <spdlog/formatter.h>

#include <memory>
#include <string>

#include "http/message.h"

namespace http {

/// How a line looks: text, or one JSON object with the id of the request that it is about.
std::unique_ptr<spdlog::formatter> log_formatter(const std::string& format);

/// Makes the process's log: lines on stderr.
void start_log(const std::string& level, const std::string& format);

/// One finished request (--log-requests). Status 0: the client left before it was answered.
void log_request(const Request& request, int status, double seconds);

}  // namespace http
