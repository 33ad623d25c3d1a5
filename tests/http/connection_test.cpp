#include "http/connection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "http/listener.h"
#include "http/service.h"
#include "tests/http/client.h"
#include "tests/http/fake_engine.h"
#include "tests/http/fake_text.h"

namespace http {
namespace {

using namespace std::chrono_literals;

/// A listener on a free port with a fake engine behind it.
struct Server {
  explicit Server(ListenOptions options = {}, ServiceOptions service = {}) {
    served->tokenizer = std::make_shared<ByteTokenizer>();
    served->chat_template = std::make_shared<EchoTemplate>();
    health.set_ready();
    auto bound = Listener::bind(loop, options);
    EXPECT_TRUE(bound.ok());
    listener = std::move(*bound);
    ServiceParts parts;
    parts.served = served;
    parts.engine = &engine;
    parts.health = &health;
    parts.metrics_text = [] { return std::string("# none\n"); };
    listener->start(make_service(std::move(parts), std::move(service)));
    loop.start();
  }
  ~Server() { loop.stop(); }
  int port() const { return listener->port(); }

  IoLoop loop;
  FakeEngine engine;
  actors::HealthWord health;
  std::shared_ptr<actors::ServedModel> served = fake_model();
  std::unique_ptr<Listener> listener;
};

const std::string kLargeBody(100'000, ' ');
const std::string kLargeAnswer(300'000, 'x');

/// A listener whose service is the test's: /blocked waits until it is released; /large has a large answer,
/// others their path.
struct BlockableServer {
  BlockableServer() {
    auto bound = Listener::bind(loop, {});
    EXPECT_TRUE(bound.ok());
    listener = std::move(*bound);
    listener->start([this](const auto& request, const auto& exchange) { serve(*request, *exchange); });
    loop.start();
  }
  ~BlockableServer() {
    release();
    loop.stop();
  }
  int port() const { return listener->port(); }

  void serve(const Request& request, Exchange& exchange) {
    std::unique_lock lock(mutex);
    served.push_back(request.path);
    changed.notify_all();
    if (request.path == "/blocked") changed.wait_for(lock, 10s, [this] { return released; });
    exchange.respond({200, request.path == "/large" ? kLargeAnswer : request.path});
  }
  void release() {
    const std::lock_guard lock(mutex);
    released = true;
    changed.notify_all();
  }
  bool has_begun(const std::string& path) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, 5s, [&] { return std::count(served.begin(), served.end(), path) > 0; });
  }
  bool has_already_begun(const std::string& path) {
    const std::lock_guard lock(mutex);
    return std::count(served.begin(), served.end(), path) > 0;
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> served;
  bool released = false;
  IoLoop loop;
  std::unique_ptr<Listener> listener;
};

constexpr const char* kChat = R"({"model":"mini","messages":[{"role":"user","content":"hi"}],"stream":true})";
constexpr const char* kPlainChat = R"({"model":"mini","messages":[{"role":"user","content":"hi"}]})";

actors::ChoiceDelta text_delta(std::string text) {
  actors::ChoiceDelta delta;
  delta.text = std::move(text);
  return delta;
}
void finish(actors::ResponseSink& sink) {
  sink.end_choice({0, model::FinishReason::stop, {}, {}});
  sink.finish({2, 3, 0, 0});
}

TEST(Connection, AnswersOneRequestAfterTheOtherOnTheSameConnection) {
  Server server;
  Client client(server.port());
  EXPECT_EQ(client.get("/health").status, 200);
  EXPECT_EQ(client.get("/nothing").status, 404);
  const auto again = client.get("/livez");
  EXPECT_EQ(again.status, 200);
  EXPECT_TRUE(again.has("Connection: keep-alive"));
}

TEST(Connection, AnswersAServiceThatThrowsAndGoesOn) {
  IoLoop loop;
  auto listener = *Listener::bind(loop, {});
  listener->start(
      [](const std::shared_ptr<const Request>& request, const std::shared_ptr<Exchange>& exchange) {
        if (request->path == "/throw") throw std::runtime_error("no memory");
        exchange->respond({200, "{}"});
      });
  loop.start();
  Client client(listener->port());
  const auto answer = client.get("/throw");
  EXPECT_EQ(answer.status, 500);
  EXPECT_NE(answer.body.find("engine_error"), std::string::npos);
  EXPECT_EQ(client.get("/other").status, 200);
  loop.stop();
}

TEST(Connection, AnswersPipelinedRequestsInOrder) {
  Server server;
  Client client(server.port());
  client.send(
      "GET /version HTTP/1.1\r\nHost: t\r\n\r\nGET /nothing HTTP/1.1\r\nHost: t\r\n\r\nGET /health "
      "HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(client.read().status, 200);
  EXPECT_EQ(client.read().status, 404);
  const auto last = client.read();
  EXPECT_EQ(last.status, 200);
  EXPECT_TRUE(last.has("Connection: close"));
  EXPECT_TRUE(client.closed_by_server());
}

TEST(Connection, KeepsWhatIsPipelinedBehindAStream) {
  Server server;
  Client client(server.port());
  client.post("/v1/chat/completions", kChat);
  auto* sink = server.engine.sink(1);
  ASSERT_NE(sink, nullptr);
  client.send("GET /health HTTP/1.1\r\nHost: t\r\n\r\n");
  sink->start({{{1, 2}}, {}});
  finish(*sink);
  EXPECT_EQ(client.read().status, 200);
  EXPECT_EQ(client.read().body, R"({"status":"ready"})");
  EXPECT_FALSE(server.engine.already_heard("gone", 1));
}

TEST(Connection, ReadsARequestThatComesByteByByte) {
  Server server;
  Client client(server.port());
  const std::string body = R"({"prompt":"ab"})";
  const std::string request =
      "POST /tokenize HTTP/1.1\r\nHost: t\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
      body;
  for (const char c : request) ASSERT_TRUE(client.send(std::string_view(&c, 1)));
  EXPECT_EQ(client.read().body, R"({"count":2,"max_model_len":512,"tokens":[97,98]})");
}

TEST(Connection, ReadsAChunkedBody) {
  Server server;
  Client client(server.port());
  client.send(
      "POST /tokenize HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: "
      "chunked\r\n\r\n8\r\n{\"prompt\r\n7;x=y\r\n\":\"ab\"}\r\n0\r\n\r\n");
  EXPECT_EQ(client.read().status, 200);
  EXPECT_EQ(client.get("/health").status, 200);
}

TEST(Connection, PermitsABodyThatWaitsForPermission) {
  Server server;
  Client client(server.port());
  client.send("POST /tokenize HTTP/1.1\r\nHost: t\r\nContent-Length: 14\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send(R"({"prompt":"a"})");
  EXPECT_EQ(client.read().status, 200);
}

TEST(Connection, RefusesATooLargeBodyBeforeReadingIt) {
  ListenOptions options;
  options.limits.max_body_bytes = 100;
  Server server(options);
  for (const char* head : {"Content-Length: 101\r\n", "Content-Length: 101\r\nExpect: 100-continue\r\n"}) {
    Client client(server.port());
    client.send(std::string("POST /tokenize HTTP/1.1\r\nHost: t\r\n") + head + "\r\n");
    const auto answer = client.read();
    EXPECT_EQ(answer.status, 413);
    EXPECT_TRUE(answer.has("Connection: close"));
    EXPECT_NE(answer.body.find("\"code\":\"request_too_large\""), std::string::npos);
  }
}

TEST(Connection, RefusesATooLargeChunkedBodyAndLetsTheClientReadWhy) {
  ListenOptions options;
  options.limits.max_body_bytes = 1000;
  Server server(options);
  Client client(server.port());
  client.send("POST /tokenize HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n");
  const std::string chunk = "400\r\n" + std::string(0x400, 'x') + "\r\n";
  for (int i = 0; i < 200; ++i) client.send(chunk);
  EXPECT_EQ(client.read().status, 413);
}

TEST(Connection, AcceptsABodyOfExactlyTheLimit) {
  ListenOptions options;
  options.limits.max_body_bytes = 14;
  Server server(options);
  Client client(server.port());
  client.post("/tokenize", R"({"prompt":"a"})");
  EXPECT_EQ(client.read().status, 200);
}

TEST(Connection, TimesOutARequestThatDoesNotArrive) {
  ListenOptions options;
  options.limits.header_timeout = 50ms;
  Server server(options);
  Client head(server.port());
  head.send("POST /tokenize HTT");
  EXPECT_EQ(head.read().status, 408);
  EXPECT_TRUE(head.closed_by_server());
  Client body(server.port());
  body.send("POST /tokenize HTTP/1.1\r\nHost: t\r\nContent-Length: 10\r\n\r\nabc");
  EXPECT_EQ(body.read().status, 408);
  Client silent(server.port());
  EXPECT_TRUE(silent.closed_by_server());
}

TEST(Connection, RefusesATooLongHead) {
  Server server;
  Client client(server.port());
  client.send("GET /health HTTP/1.1\r\nHost: t\r\nX-Long: " + std::string(40'000, 'a') + "\r\n\r\n");
  EXPECT_EQ(client.read().status, 431);
  Client target(server.port());
  target.send("GET /" + std::string(40'000, 'a') + " HTTP/1.1\r\nHost: t\r\n\r\n");
  EXPECT_EQ(target.read().status, 414);
  Client longer(server.port());  // fills what is read at once several times over, in the middle of its value
  longer.send("GET /health HTTP/1.1\r\nHost: t\r\nX-Long: " + std::string(60'000, 'a') + "\r\n\r\n");
  EXPECT_EQ(longer.read().status, 431);
  std::string many_fields;
  for (int i = 0; i < 4'000; ++i) many_fields += "X" + std::to_string(i) + ": y\r\n";
  Client many(server.port());
  many.send("GET /health HTTP/1.1\r\nHost: t\r\n" + many_fields + "\r\n");
  EXPECT_EQ(many.read().status, 431);
}

TEST(Connection, BoundsWhatAChunkedBodyCarriesBesideItsBytes) {
  const std::string head =
      "POST /v1/completions HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n";
  std::string many_fields;
  for (int i = 0; i < 20'000; ++i) many_fields += "X" + std::to_string(i) + ": y\r\n";
  const std::string long_run(100'000, 'y');
  for (const auto& rest : {"0\r\nX: " + long_run + "\r\n\r\n", "0\r\n" + long_run + ": y\r\n\r\n",
                           "0\r\n" + many_fields + "\r\n", "1;" + long_run, "0\r\n" + many_fields}) {
    Server server;
    Client client(server.port());
    client.send(head + rest);
    EXPECT_EQ(client.read().status, 431);
    EXPECT_TRUE(client.closed_by_server());
  }
}

TEST(Connection, RefusesABodyInAnEncodingItDoesNotRead) {
  Server server;
  Client client(server.port());
  client.send(
      "POST /v1/completions HTTP/1.1\r\nHost: t\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}");
  EXPECT_EQ(client.read().status, 415);
}

TEST(Connection, RefusesRequestsThatGiveTheirLengthInTwoWays) {
  Server server;
  const char* heads[] = {
      "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
      "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
      "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
      "Content-Length: +3\r\n\r\nabc",
      "Content-Length: -1\r\n\r\n",
      "Content-Length: 3, 3\r\n\r\nabc",
      "Content-Length: 99999999999999999999999\r\n\r\n",
      "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
      "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
      "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
      "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
      "Transfer-Encoding: chunked\r\n\r\nxyz\r\n",
      "Transfer-Encoding: chunked\r\n\r\n-1\r\n",
      "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
      "Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
      "Content-Length : 3\r\n\r\nabc",
      "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
      "X: a\r\n\tContent-Length: 3\r\n\r\nabc",
      "X: a\nContent-Length: 3\r\n\r\nabc",
      "Content-Length: 3\n\nabc",
      "X: a\rContent-Length: 3\r\n\r\nabc",
      "Transfer-Encoding: chunked\r\n\r\n3\nabc\n0\n\n",
      "Transfer-Encoding: chunked\r\n\r\n3\r\nabc0\r\n\r\n",
      "Transfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n0\r\n\r\n",
      "Transfer-Encoding: chunked\r\n\r\n 3\r\nabc\r\n0\r\n\r\n",
  };
  for (const char* head : heads) {
    Client client(server.port());
    client.send(std::string("POST /tokenize HTTP/1.1\r\nHost: t\r\n") + head +
                "GET /health HTTP/1.1\r\nHost: t\r\n\r\n");
    const auto answer = client.read();
    EXPECT_TRUE(answer.status == 400 || answer.status == 413 || answer.status == 501)
        << head << answer.status;
    EXPECT_TRUE(client.closed_by_server()) << head;
  }
}

TEST(Connection, RefusesWhatIsNoHttp) {
  Server server;
  for (const char* bytes : {"hello\r\n\r\n", "GET /health\r\n\r\n", "GET /health HTTP/2.0\r\nHost: t\r\n\r\n",
                            "\x16\x03\x01\x02\r\n\r\n", "GET /health HTTP/1.1\r\n\r\n",
                            "GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"}) {
    Client client(server.port());
    client.send(bytes);
    const auto answer = client.read();
    EXPECT_TRUE(answer.status == 400 || answer.status == 505) << bytes << answer.status;
    EXPECT_TRUE(client.closed_by_server());
  }
}

TEST(Connection, LeavesOutTheBodyForHead) {
  Server server;
  Client client(server.port());
  client.send("HEAD /health HTTP/1.1\r\nHost: t\r\n\r\nGET /nothing HTTP/1.1\r\nHost: t\r\n\r\n");
  EXPECT_TRUE(client.until("\r\n\r\n").find("Content-Length: 18") != std::string::npos);
  EXPECT_EQ(client.until("\r\n\r\n").substr(0, 12), "HTTP/1.1 404");
}

TEST(Connection, StreamsEventsAsTheyCome) {
  Server server;
  Client client(server.port());
  client.post("/v1/chat/completions", kChat, "x-request-id: mine-7\r\n");
  auto* sink = server.engine.sink(1);
  ASSERT_NE(sink, nullptr);
  sink->start({{{1, 2}}, 9});
  const std::string head = client.until("\r\n\r\n");
  for (const char* field :
       {"200 OK", "Content-Type: text/event-stream", "Cache-Control: no-cache", "X-Accel-Buffering: no",
        "Transfer-Encoding: chunked", "x-request-id: mine-7", "x-atlas-max-tokens-clamped: 9"}) {
    EXPECT_NE(head.find(field), std::string::npos) << field;
  }
  EXPECT_EQ(head.find("Content-Length"), std::string::npos);
  EXPECT_NE(client.until("\n\n").find("\"role\":\"assistant\""), std::string::npos);
  sink->delta(text_delta("one"));
  EXPECT_NE(client.until("\n\n").find("\"content\":\"one\""),
            std::string::npos);  // before anything else was sent
  finish(*sink);
  EXPECT_NE(client.until("data: [DONE]\n\n").find("\"finish_reason\":\"stop\""), std::string::npos);
  EXPECT_EQ(client.until("0\r\n\r\n"), "\r\n0\r\n\r\n");
  EXPECT_EQ(client.get("/health").status, 200);
}

TEST(Connection, JoinsEventsThatWaitIntoOneChunk) {
  auto wakes = std::make_shared<int>(0);
  ConnectionExchange exchange([wakes] { ++*wakes; });
  exchange.open_stream({});
  exchange.send("a");
  exchange.send("b");
  exchange.close_stream();
  EXPECT_EQ(*wakes, 1);
  ConnectionExchange::News news;
  exchange.take(news);
  EXPECT_EQ(news.bytes, "ab");
  EXPECT_TRUE(news.ended);
  exchange.send("c");
  exchange.take(news);
  EXPECT_EQ(news.bytes, "");
}

TEST(Connection, HearsOfWhatComesWhileItCannotTakeIt) {
  auto wakes = std::make_shared<int>(0);
  ConnectionExchange exchange([wakes] { ++*wakes; });
  exchange.open_stream({});
  exchange.send("a");
  EXPECT_EQ(exchange.waiting_bytes(), 1U);  // woken, and busy with an earlier write
  exchange.send("b");
  EXPECT_EQ(*wakes, 2);
  EXPECT_EQ(exchange.waiting_bytes(), 2U);
}

TEST(Connection, RefusesBeforeTheStreamIsOpened) {
  Server server;
  Client client(server.port());
  client.post("/v1/chat/completions", kChat);
  auto* sink = server.engine.sink(1);
  ASSERT_NE(sink, nullptr);
  sink->fail({model::RequestError::Kind::overloaded, "The queue is full.", "", ""});
  const auto answer = client.read();
  EXPECT_EQ(answer.status, 429);
  EXPECT_TRUE(answer.has("Retry-After: "));
  EXPECT_TRUE(answer.has("Content-Type: application/json"));
  EXPECT_EQ(client.get("/health").status, 200);
}

TEST(Connection, TellsTheEngineWhenAWaitingClientLeaves) {
  Server server;
  for (const char* body : {kChat, kPlainChat}) {
    Client client(server.port());
    client.post("/v1/chat/completions", body);
    const FakeEngine::Ticket ticket = body == kChat ? 1 : 2;
    ASSERT_NE(server.engine.sink(ticket), nullptr);
    client.leave();
    EXPECT_TRUE(server.engine.heard("gone", ticket));
  }
}

TEST(Connection, TellsTheEngineWhenAClientLeavesInMidStream) {
  Server server;
  Client client(server.port());
  client.post("/v1/chat/completions", kChat);
  auto* sink = server.engine.sink(1);
  ASSERT_NE(sink, nullptr);
  sink->start({{{1}}, {}});
  sink->delta(text_delta("x"));
  client.until("\"x\"");
  client.leave();
  EXPECT_TRUE(server.engine.heard("gone", 1));
  sink->delta(text_delta("y"));  // goes nowhere
  finish(*sink);
}

TEST(Connection, CancelsARequestWhoseClientHadLeftBeforeItsTurn) {
  Server server;
  Client client(server.port());
  const std::string body = kPlainChat;
  client.send(
      "GET /health HTTP/1.1\r\nHost: t\r\n\r\nPOST /v1/chat/completions HTTP/1.1\r\nHost: "
      "t\r\nContent-Length: " +
      std::to_string(body.size()) + "\r\n\r\n" + body);
  client.shutdown_send();
  EXPECT_EQ(client.read().status, 200);
  EXPECT_TRUE(server.engine.heard("gone", 1));
}

TEST(Connection, SaysNothingOfAClientThatLeavesAfterItsAnswer) {
  Server server;
  Client client(server.port());
  client.post("/v1/chat/completions", kChat);
  auto* sink = server.engine.sink(1);
  ASSERT_NE(sink, nullptr);
  sink->start({{{1}}, {}});
  finish(*sink);
  EXPECT_EQ(client.read().status, 200);
  client.leave();
  Client other(server.port());
  EXPECT_EQ(other.get("/health").status, 200);
  EXPECT_FALSE(server.engine.already_heard("gone", 1));
}

TEST(Connection, PausesForASlowReaderAndResumesWithIt) {
  ListenOptions options;
  options.limits.send_buffer_bytes = 8 * 1024;
  options.limits.max_stream_bytes = 32 * 1024;
  options.limits.resume_stream_bytes = 8 * 1024;
  Server server(options);
  Client client(server.port(), 4 * 1024);
  client.post("/v1/chat/completions", kChat);
  auto* sink = server.engine.sink(1);
  ASSERT_NE(sink, nullptr);
  sink->start({{{1}}, {}});
  int sent = 0;
  for (; sent < 10'000 && !server.engine.already_heard("pause", 1); ++sent)
    sink->delta(text_delta(std::string(1000, 'x')));
  ASSERT_TRUE(server.engine.heard("pause", 1));
  EXPECT_FALSE(server.engine.already_heard("resume", 1));
  finish(*sink);
  const auto answer = client.read();
  EXPECT_TRUE(server.engine.heard("resume", 1));
  EXPECT_GT(answer.body.size(), static_cast<std::size_t>(sent) * 1000);
  EXPECT_TRUE(answer.body.ends_with("data: [DONE]\n\n"));
}

TEST(Connection, GivesUpAReaderThatTakesNothing) {
  ListenOptions options;
  options.limits.send_buffer_bytes = 8 * 1024;
  options.limits.write_timeout = 100ms;
  Server server(options);
  Client client(server.port(), 4 * 1024);
  client.post("/v1/chat/completions", kChat);
  auto* sink = server.engine.sink(1);
  ASSERT_NE(sink, nullptr);
  sink->start({{{1}}, {}});
  for (int i = 0; i < 3000; ++i) sink->delta(text_delta(std::string(1000, 'x')));
  EXPECT_TRUE(server.engine.heard("gone", 1));
}

TEST(Connection, PingsAStreamThatHasNothingToSay) {
  ListenOptions options;
  options.limits.ping_interval = 20ms;
  Server server(options);
  Client client(server.port());
  client.post("/v1/chat/completions", kChat);
  auto* sink = server.engine.sink(1);
  ASSERT_NE(sink, nullptr);
  sink->start({{{1}}, {}});
  client.until(": ping\n\n");
  client.until(": ping\n\n");
  finish(*sink);
  EXPECT_TRUE(client.until("[DONE]\n\n").ends_with("[DONE]\n\n"));
}

TEST(Connection, EndsAnOpenStreamWhenItsRequestActorDies) {
  Server server;
  Client client(server.port());
  client.post("/v1/chat/completions", kChat);
  auto* sink = server.engine.sink(1);
  ASSERT_NE(sink, nullptr);
  sink->start({{{1}}, {}});
  server.engine.drop(1);
  const auto answer = client.read();
  const auto reason = answer.body.find("\"finish_reason\":\"error\"");
  const auto error = answer.body.find("\"error\":{");
  ASSERT_NE(reason, std::string::npos);
  ASSERT_NE(error, std::string::npos);
  EXPECT_LT(reason, error);
  EXPECT_EQ(error, answer.body.rfind("\"error\":{"));  // one event carries it
  EXPECT_NE(answer.body.find("\"code\":\"engine_error\""), std::string::npos);
  EXPECT_TRUE(answer.body.ends_with("data: [DONE]\n\n"));
}

TEST(Connection, AnswersALargeBodyInItsPlaceAmongOthers) {
  Server server;
  Client client(server.port());
  client.post("/tokenize", R"({"prompt":")" + std::string(200'000, 'a') + R"("})");
  client.send("GET /health HTTP/1.1\r\nHost: t\r\n\r\n");
  const auto answer = client.read();
  EXPECT_TRUE(answer.body.starts_with(R"({"count":200000,)"));
  EXPECT_TRUE(answer.body.ends_with(",97,97]}"));
  EXPECT_EQ(client.read().body, R"({"status":"ready"})");
}

TEST(Connection, SendsALargeAnswerWholeAndLeavesItOutForHead) {
  BlockableServer server;
  Client client(server.port());
  client.send("HEAD /large HTTP/1.1\r\nHost: t\r\n\r\n");
  EXPECT_NE(client.until("\r\n\r\n").find("Content-Length: " + std::to_string(kLargeAnswer.size())),
            std::string::npos);
  EXPECT_EQ(client.get("/livez").body, "/livez");
  EXPECT_EQ(client.get("/large").body, kLargeAnswer);
  EXPECT_EQ(client.get("/livez").body, "/livez");
}

TEST(Connection, TellsTheEngineWhenTheClientOfALargeBodyLeaves) {
  Server server;
  Client client(server.port());
  client.post("/v1/chat/completions", kPlainChat + kLargeBody);
  ASSERT_NE(server.engine.sink(1), nullptr);
  client.leave();
  EXPECT_TRUE(server.engine.heard("gone", 1));
}

TEST(Connection, AnswersProbesAndSmallBodiesWhileALargeBodyIsServed) {
  BlockableServer server;
  Client large(server.port());
  large.post("/blocked", kLargeBody);
  ASSERT_TRUE(server.has_begun("/blocked"));
  Client probe(server.port());
  EXPECT_EQ(probe.get("/livez").body, "/livez");
  probe.post("/small", "{}");
  EXPECT_EQ(probe.read().body, "/small");
  server.release();
  EXPECT_EQ(large.read().body, "/blocked");
}

TEST(Connection, ForgetsALargeBodyWhoseClientLeavesBeforeItsTurn) {
  BlockableServer server;
  Client first(server.port());
  first.post("/blocked", kLargeBody);
  ASSERT_TRUE(server.has_begun("/blocked"));
  Client leaver(server.port());
  leaver.post("/given-up", kLargeBody);
  leaver.leave();
  Client last(server.port());
  EXPECT_EQ(last.get("/livez").status, 200);
  for (int i = 0; i < 10'000 && server.listener->num_connections() > 2; ++i) last.get("/livez");
  EXPECT_EQ(server.listener->num_connections(), 2U);
  last.post("/last", kLargeBody);
  server.release();
  EXPECT_EQ(first.read().body, "/blocked");
  EXPECT_EQ(last.read().body, "/last");
  EXPECT_FALSE(server.has_already_begun("/given-up"));
}

TEST(Connection, WindsDownAfterALargeBodyThatWaits) {
  BlockableServer server;
  Client first(server.port());
  first.post("/blocked", kLargeBody);
  ASSERT_TRUE(server.has_begun("/blocked"));
  Client idle(server.port());
  EXPECT_EQ(idle.get("/livez").status, 200);
  server.listener->stop();
  EXPECT_TRUE(idle.closed_by_server());
  server.release();
  const auto answer = first.read();
  EXPECT_EQ(answer.body, "/blocked");
  EXPECT_TRUE(answer.has("Connection: close"));
  EXPECT_TRUE(first.closed_by_server());
}

TEST(Connection, TellsAWatcherThatComesLateWhatHappenedBefore) {
  std::string heard;
  const Exchange::Flow flow{[&] { heard += "gone "; }, [&] { heard += "pause "; },
                            [&] { heard += "resume "; }};
  ConnectionExchange left([] {});
  left.abandon();
  left.watch(flow);
  EXPECT_EQ(std::exchange(heard, ""), "gone ");
  ConnectionExchange slow([] {});
  slow.open_stream({});
  slow.pause();
  slow.watch(flow);
  slow.resume();
  slow.abandon();
  slow.abandon();
  EXPECT_EQ(std::exchange(heard, ""), "pause resume gone ");
  ConnectionExchange answered([] {});
  answered.respond({});
  answered.abandon();
  answered.watch(flow);
  EXPECT_EQ(heard, "");
}

TEST(Connection, SpeaksToHttp10WithoutChunks) {
  Server server;
  Client client(server.port());
  client.send("POST /v1/chat/completions HTTP/1.0\r\nContent-Length: " +
              std::to_string(std::string(kChat).size()) + "\r\n\r\n" + kChat);
  auto* sink = server.engine.sink(1);
  ASSERT_NE(sink, nullptr);
  sink->start({{{1}}, {}});
  finish(*sink);
  const std::string head = client.until("\r\n\r\n");
  EXPECT_EQ(head.find("chunked"), std::string::npos);
  EXPECT_TRUE(client.until("[DONE]\n\n").starts_with("data: "));
  EXPECT_TRUE(client.closed_by_server());
}

TEST(Listener, RefusesConnectionsBeyondItsLimitWithAReasonWhenAllAreBusy) {
  ListenOptions options;
  options.max_connections = 2;
  Server server(options);
  Client streaming(server.port());
  streaming.post("/v1/chat/completions", kChat);
  auto* sink = server.engine.sink(1);
  ASSERT_NE(sink, nullptr);
  Client sending(server.port());
  sending.send("POST /tokenize HTTP/1.1\r\nHost: t\r\nContent-Length: 14\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(sending.until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  Client refused(server.port());
  const auto answer = refused.read();
  EXPECT_EQ(answer.status, 503);
  EXPECT_TRUE(refused.closed_by_server());
  sending.send(R"({"prompt":"a"})");
  EXPECT_EQ(sending.read().status, 200);
  sink->start({{{1}}, {}});
  finish(*sink);
  EXPECT_TRUE(streaming.read().body.ends_with("data: [DONE]\n\n"));
}

TEST(Listener, ClosesTheLongestIdleConnectionForANewOne) {
  ListenOptions options;
  options.max_connections = 3;
  Server server(options);
  Client busy(server.port());
  busy.post("/v1/chat/completions", kChat);
  ASSERT_NE(server.engine.sink(1), nullptr);
  Client silent(server.port());
  Client kept(server.port());
  EXPECT_EQ(kept.get("/health").status, 200);
  Client third(server.port());
  EXPECT_EQ(third.get("/livez").status, 200);
  EXPECT_TRUE(silent.closed_by_server());
  EXPECT_EQ(kept.get("/health").status, 200);  // from now on idle for a shorter time than the third
  Client fourth(server.port());
  EXPECT_EQ(fourth.get("/livez").status, 200);
  EXPECT_TRUE(third.closed_by_server());
  EXPECT_EQ(kept.get("/health").status, 200);
  EXPECT_EQ(server.listener->num_connections(), 3U);
  EXPECT_FALSE(server.engine.already_heard("gone", 1));
}

TEST(Listener, NamesAPortThatIsInUse) {
  Server server;
  ListenOptions options;
  options.port = server.port();
  IoLoop loop;
  const auto second = Listener::bind(loop, options);
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.error().problems.front().find("in use"), std::string::npos);
}

TEST(Listener, RefusesAHostThatIsNoAddress) {
  IoLoop loop;
  ListenOptions options;
  options.host = "not an address";
  EXPECT_FALSE(Listener::bind(loop, options).ok());
}

TEST(Listener, WindsDownAfterRunningAnswers) {
  Server server;
  Client idle(server.port());
  EXPECT_EQ(idle.get("/health").status, 200);
  Client busy(server.port());
  busy.post("/v1/chat/completions", kChat);
  auto* sink = server.engine.sink(1);
  ASSERT_NE(sink, nullptr);
  server.listener->stop();
  EXPECT_TRUE(idle.closed_by_server());
  sink->start({{{1}}, {}});
  finish(*sink);
  const auto answer = busy.read();
  EXPECT_TRUE(answer.has("Connection: close"));
  EXPECT_TRUE(answer.body.ends_with("data: [DONE]\n\n"));
  EXPECT_TRUE(busy.closed_by_server());
}

}  // namespace
}  // namespace http
