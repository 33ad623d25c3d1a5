#include "http/log.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <nlohmann/json.hpp>
#include <sstream>

namespace http {
namespace {

TEST(Log, APathCannotAddALine) {
  const auto before = spdlog::default_logger();
  std::ostringstream out;
  auto logger =
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_st>(out));
  logger->set_pattern("%v");
  spdlog::set_default_logger(logger);
  Request request;
  request.id = "id-1";
  request.method = "GET";
  request.path = path_of_target("/a%0Arequest%20id-2%1b[2J");
  log_request(request, 404, 0.0);
  spdlog::set_default_logger(before);
  EXPECT_EQ(out.str(), "request id-1 GET /a?request id-2?[2J 404 in 0.000 s\n");
}

TEST(Log, AJsonLineSaysWhoseRequestItIsAbout) {
  std::ostringstream out;
  spdlog::logger logger("test", std::make_shared<spdlog::sinks::ostream_sink_st>(out));
  logger.set_formatter(log_formatter("json"));
  for (const char* line : {"request a:1/b: it \"failed\"", "request id-2 ended", "draining"}) {
    out.str("");
    logger.info(line);
    const auto json = nlohmann::json::parse(out.str());
    EXPECT_EQ(json.at("message"), line);
    EXPECT_EQ(json.at("level"), "info");
    const std::string id = json.value("request_id", "none");
    EXPECT_EQ(id, line[0] == 'd' ? "none" : line[8] == 'a' ? "a:1/b" : "id-2");
  }
}

}  // namespace
}  // namespace http
