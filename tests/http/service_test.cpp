#include "http/service.h"

#include <gtest/gtest.h>

#include "http/startup_report.h"
#include "tests/http/fake_engine.h"
#include "tests/http/fake_text.h"

namespace http {
namespace {

class Recorder final : public Exchange {
 public:
  void respond(Response response) override { whole = std::move(response); }
  void open_stream(Response response) override { whole = std::move(response); }
  void send(std::string_view) override {}
  void close_stream() override {}
  void watch(Flow) override {}
  Response whole{0};
};

struct Front {
  explicit Front(ServiceOptions options = {}, actors::ProcessState state = actors::ProcessState::ready) {
    served->tokenizer = std::make_shared<ByteTokenizer>();
    served->chat_template = std::make_shared<EchoTemplate>();
    options.version_json = R"({"version":"1"})";
    ServiceParts parts;
    parts.served = served;
    parts.engine = &engine;
    parts.health = &health;
    parts.metrics_text = [] { return std::string("m 1\n"); };
    service = make_service(std::move(parts), std::move(options));
    if (state == actors::ProcessState::ready) health.set_ready();
    if (state == actors::ProcessState::draining) health.set_draining();
    if (state == actors::ProcessState::failing) health.set_failing("lost");
  }
  Response ask(const std::string& method, const std::string& path, const std::string& body = "",
               std::vector<Header> headers = {}) {
    auto request = std::make_shared<Request>();
    request->method = method;
    request->path = path;
    request->body = body;
    request->headers = std::move(headers);
    auto exchange = std::make_shared<Recorder>();
    service(request, exchange);
    return exchange->whole;
  }
  static std::string header(const Response& response, const std::string& name) {
    for (const auto& h : response.headers) {
      if (h.name == name) return h.value;
    }
    return "";
  }

  std::shared_ptr<actors::ServedModel> served = fake_model();
  FakeEngine engine;
  actors::HealthWord health;
  Service service;
};

constexpr const char* kChat = R"({"messages":[{"role":"user","content":"hi"}]})";

TEST(Service, AnswersItsRoutes) {
  Front front;
  EXPECT_EQ(
      front.ask("GET", "/v1/models").body,
      R"({"object":"list","data":[{"id":"mini","object":"model","created":1700000000,"owned_by":"atlas","root":"mini","parent":null,"max_model_len":512},)"
      R"({"id":"alias","object":"model","created":1700000000,"owned_by":"atlas","root":"mini","parent":null,"max_model_len":512}]})");
  EXPECT_EQ(front.ask("GET", "/v1/models/alias").status, 200);
  EXPECT_EQ(front.ask("GET", "/v1/models/other").status, 404);
  EXPECT_EQ(front.ask("GET", "/version").body, R"({"version":"1"})");
  EXPECT_EQ(front.ask("GET", "/metrics").body, "m 1\n");
  EXPECT_NE(front.ask("GET", "/serve-plan").body.find("max_seq_len"), std::string::npos);
  EXPECT_EQ(front.ask("POST", "/v1/embeddings").status, 501);
  EXPECT_EQ(front.ask("POST", "/v1/messages/count_tokens").status, 501);
  EXPECT_EQ(front.ask("GET", "/v1").status, 404);
  const auto wrong = front.ask("GET", "/v1/chat/completions");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(Front::header(wrong, "Allow"), "POST, OPTIONS");
}

TEST(Service, TurnsTextIntoTokensAndBack) {
  Front front;
  EXPECT_EQ(front.ask("POST", "/tokenize", R"({"prompt":"ab"})").body,
            R"({"count":2,"max_model_len":512,"tokens":[97,98]})");
  EXPECT_EQ(front.ask("POST", "/tokenize", R"({"prompt":""})").body,
            R"({"count":0,"max_model_len":512,"tokens":[]})");
  EXPECT_EQ(front.ask("POST", "/tokenize", kChat).status, 200);
  EXPECT_EQ(front.ask("POST", "/tokenize", R"({"prompt":7})").status, 400);
  EXPECT_EQ(front.ask("POST", "/tokenize", "{").status, 400);
  EXPECT_EQ(front.ask("POST", "/detokenize", R"({"tokens":[97,98]})").body, R"({"prompt":"ab"})");
  EXPECT_EQ(front.ask("POST", "/detokenize", R"({"tokens":[1000]})").status, 400);
  EXPECT_EQ(front.ask("POST", "/detokenize", R"({})").status, 400);
  EXPECT_EQ(front.ask("POST", "/apply-template", kChat).body,
            R"({"prompt":"[{\"role\":\"user\",\"content\":\"hi\"}]"})");
  EXPECT_EQ(front.ask("POST", "/apply-template", R"({"messages":[]})").status, 400);
  front.served->tokenizer = nullptr;
  for (const char* path : {"/tokenize", "/detokenize", "/apply-template"})
    EXPECT_EQ(front.ask("POST", path, kChat).status, 501);
}

TEST(Service, FollowsTheStateOfTheProcess) {
  struct Case {
    actors::ProcessState state;
    int engine, text, models, health, live, ready;
    const char* code;
  };
  using actors::ProcessState;
  for (const auto& c : {Case{ProcessState::starting, 503, 503, 503, 503, 200, 503, "model_loading"},
                        Case{ProcessState::draining, 503, 200, 200, 503, 200, 503, "draining"},
                        Case{ProcessState::failing, 503, 503, 503, 503, 503, 503, "gpu_fault"}}) {
    Front front({}, c.state);
    const auto refused = front.ask("POST", "/v1/chat/completions", kChat);
    EXPECT_EQ(refused.status, c.engine);
    EXPECT_NE(refused.body.find(c.code), std::string::npos) << refused.body;
    EXPECT_NE(Front::header(refused, "Retry-After"), "");
    EXPECT_EQ(front.ask("POST", "/tokenize", R"({"prompt":"a"})").status, c.text);
    EXPECT_EQ(front.ask("GET", "/v1/models").status, c.models);
    EXPECT_EQ(front.ask("GET", "/health").status, c.health);
    EXPECT_EQ(front.ask("GET", "/livez").status, c.live);
    EXPECT_EQ(front.ask("GET", "/readyz").status, c.ready);
    EXPECT_EQ(front.ask("GET", "/metrics").status, 200);
  }
}

TEST(Service, SaysWhatItIsDoing) {
  Front front;
  EXPECT_EQ(front.ask("GET", "/health").body, R"({"status":"ready"})");
  front.health.set_failing("step 3: lost");
  EXPECT_EQ(front.ask("GET", "/health").body, R"({"status":"failing","reason":"step 3: lost"})");
}

TEST(Service, AsksForAKeyWhereOneIsSet) {
  ServiceOptions options;
  options.api_keys = {"first", "second"};
  Front front(options);
  EXPECT_EQ(front.ask("GET", "/v1/models").status, 401);
  EXPECT_EQ(front.ask("GET", "/v1/models", "", {{"Authorization", "Bearer secone"}}).status, 401);
  EXPECT_EQ(front.ask("GET", "/v1/models", "", {{"Authorization", "Bearer "}}).status, 401);
  EXPECT_NE(front.ask("POST", "/v1/chat/completions", kChat).body.find("invalid_api_key"), std::string::npos);
  EXPECT_EQ(front.ask("GET", "/v1/models", "", {{"authorization", "bearer second"}}).status, 200);
  EXPECT_EQ(front.ask("GET", "/v1/models", "", {{"x-api-key", "first"}}).status, 200);
  EXPECT_EQ(front.ask("GET", "/health").status, 200);
  EXPECT_EQ(front.ask("GET", "/metrics").status, 200);
}

TEST(Service, AnswersPreflightsWhereAnOriginIsSet) {
  ServiceOptions options;
  options.cors_origin = "http://app.example";
  Front front(options);
  const auto preflight =
      front.ask("OPTIONS", "/v1/chat/completions", "", {{"Access-Control-Request-Headers", "content-type"}});
  EXPECT_EQ(preflight.status, 204);
  EXPECT_EQ(Front::header(preflight, "Access-Control-Allow-Origin"), "http://app.example");
  EXPECT_EQ(Front::header(preflight, "Access-Control-Allow-Methods"), "POST, OPTIONS");
  EXPECT_EQ(Front::header(preflight, "Access-Control-Allow-Headers"), "content-type");
  EXPECT_EQ(Front::header(front.ask("POST", "/v1/chat/completions", "{"), "Access-Control-Allow-Origin"),
            "http://app.example");
  EXPECT_EQ(Front::header(Front().ask("OPTIONS", "/health"), "Access-Control-Allow-Origin"), "");
}

TEST(Service, HandsARequestOverAsItWasAsked) {
  Front front;
  front.ask("POST", "/v1/completions", R"({"prompt":[[1],[2]],"n":2,"stream":true})");
  const auto request = front.engine.request(1);
  ASSERT_NE(request, nullptr);
  EXPECT_EQ(request->prompts.size(), 2U);
  EXPECT_EQ(request->n, 2);
}

TEST(StartupReport, SaysEachThingOnce) {
  auto served = fake_model();
  StartupReport report(*served, "http://127.0.0.1:1");
  actors::HealthView view;
  view.stage = "loading weights";
  EXPECT_EQ(report.lines(view).size(), 1U);
  EXPECT_TRUE(report.lines(view).empty());
  view.stage = "warm-up";
  EXPECT_EQ(report.lines(view).at(0), "warm-up …");
  view.state = actors::ProcessState::ready;
  const auto ready = report.lines(view);
  EXPECT_EQ(ready.at(0), "ready: mini on http://127.0.0.1:1");
  const auto plan = describe(served->plan);
  ASSERT_GT(ready.size(), plan.size());
  EXPECT_TRUE(std::equal(plan.begin(), plan.end(), ready.end() - std::ssize(plan)));
  EXPECT_TRUE(report.done());
  EXPECT_TRUE(report.lines(view).empty());
}

}  // namespace
}  // namespace http
