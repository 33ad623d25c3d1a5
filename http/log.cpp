#include "http/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <string_view>

#include "model/text/json_escape.h"

namespace http {
namespace {

/// Lines about a request begin "request ID"; "" for the others.
std::string_view request_id_of(std::string_view message) {
  constexpr std::string_view kBegin = "request ";
  if (message.substr(0, kBegin.size()) != kBegin) return {};
  message.remove_prefix(kBegin.size());
  return message.substr(0, std::min(message.find(": "), message.find(' ')));
}

/// The message as a JSON string, and whose request it is about: whatever a line holds, it stays one object.
class JsonMessage final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& out) override {
    const std::string_view payload(message.payload.data(), message.payload.size());
    std::string text;
    model::text::append_json_string(text, payload);
    if (const auto id = request_id_of(payload); !id.empty()) {
      text += R"(,"request_id":)";
      model::text::append_json_string(text, id);
    }
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<JsonMessage>(); }
};

/// A path is percent-decoded: what would end or hide a line of the log is shown as "?".
std::string one_line(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  }
  return text;
}

}  // namespace

std::unique_ptr<spdlog::formatter> log_formatter(const std::string& format) {
  auto formatter = std::make_unique<spdlog::pattern_formatter>(spdlog::pattern_time_type::utc);
  if (format == "json") {
    formatter->add_flag<JsonMessage>('*').set_pattern(
        R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l","message":%*})");
  } else {
    formatter->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %l %v");
  }
  return formatter;
}

void start_log(const std::string& level, const std::string& format) {
  auto logger = std::make_shared<spdlog::logger>("atlas", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_formatter(log_formatter(format));
  logger->set_level(spdlog::level::from_str(level));
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
}

void log_request(const Request& request, int status, double seconds) {
  spdlog::info("request {} {} {} {} in {:.3f} s", request.id, one_line(request.method),
               one_line(request.path), status == 0 ? 499 : status, seconds);
}

}  // namespace http
