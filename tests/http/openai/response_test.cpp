#include <gtest/gtest.h>

#include "http/openai/body_writer.h"
#include "http/openai/chat_response.h"
#include "http/openai/completion_response.h"
#include "http/openai/sse_writer.h"
#include "tests/http/fake_text.h"

namespace http::openai {
namespace {

/// Keeps what is answered.
class Recorder final : public Exchange {
 public:
  void respond(Response response) override { whole = std::move(response); }
  void open_stream(Response response) override { head = std::move(response); }
  void send(std::string_view bytes) override { stream += bytes; }
  void close_stream() override { closed = true; }
  void watch(Flow) override {}
  bool said(const std::string& text) const {
    return (whole ? whole->body : stream).find(text) != std::string::npos;
  }

  std::optional<Response> whole, head;
  std::string stream;
  bool closed = false;
};

const AnswerHead kHead{"id-1", 7, "mini"};
constexpr const char* kUsage =
    R"({"prompt_tokens":2,"completion_tokens":3,"total_tokens":5,"prompt_tokens_details":{"cached_tokens":1},"completion_tokens_details":{"reasoning_tokens":1}})";
const actors::Usage kCounts{2, 3, 1, 1};

template <class Format>
std::unique_ptr<ResponseFormat> format(AnswerOptions options = {}, std::int32_t num_logprobs = -1,
                                       std::int32_t n = 1) {
  return std::make_unique<Format>(kHead, options, n, num_logprobs, std::make_shared<ByteTokenizer>());
}

actors::TokenDelta token(model::TokenId id, std::string bytes, float logprob = -0.5F,
                         std::vector<model::TopLogprob> top = {}) {
  return {id, std::move(bytes), logprob, std::move(top)};
}
actors::ChoiceDelta delta(std::int32_t index, std::string text, std::vector<actors::TokenDelta> tokens = {},
                          std::int32_t count = 0) {
  return {index, std::move(text), "", std::move(tokens), count};
}

TEST(ChatResponse, IsOneBody) {
  auto exchange = std::make_shared<Recorder>();
  BodyWriter writer(format<ChatFormat>(), 2, exchange);
  writer.start({{{1, 2}}, 9});
  writer.delta({0, "He", "think", {}, 1});
  writer.delta({1, "\"é\n", "", {}, 1});
  writer.delta({0, "llo", "", {}, 2});
  writer.end_choice({1, model::FinishReason::length, {}, "repetition"});
  writer.end_choice({0, model::FinishReason::stop, std::string("END"), {}});
  EXPECT_FALSE(exchange->whole);
  writer.finish(kCounts);
  ASSERT_TRUE(exchange->whole);
  EXPECT_EQ(exchange->whole->status, 200);
  EXPECT_EQ(exchange->whole->headers.at(0).value, "9");
  EXPECT_EQ(
      exchange->whole->body,
      std::string(R"({"id":"id-1","object":"chat.completion","created":7,"model":"mini","choices":[)") +
          R"({"index":0,"message":{"role":"assistant","content":"Hello","reasoning_content":"think","refusal":null},)" +
          R"("logprobs":null,"finish_reason":"stop","stop_reason":"END"},)" +
          R"({"index":1,"message":{"role":"assistant","content":"\"é\n","refusal":null},"logprobs":null,)" +
          R"("finish_reason":"length","stop_reason":null,"stop_details":"repetition"}],"usage":)" + kUsage +
          "}");
}

TEST(ChatResponse, CarriesLogprobsOfHalfCharacters) {
  auto exchange = std::make_shared<Recorder>();
  BodyWriter writer(format<ChatFormat>({false, false, false, true}, 1), 1, exchange);
  writer.start({{{5, 6}}, {}});
  writer.delta(delta(
      0, "é", {token(0xC3, "\xC3", -0.25F, {{65, -0.25F}}), token(0xA9, "\xA9", -1.0F, {{0xA9, -1.0F}})}));
  writer.end_choice({0, model::FinishReason::stop, model::TokenId{3}, {}});
  writer.finish({});
  EXPECT_TRUE(exchange->said(
      R"("logprobs":{"content":[{"token":"bytes:\\xc3","bytes":[195],"logprob":-0.25,"top_logprobs":[{"token":"A","bytes":[65],"logprob":-0.25}]},)"
      R"({"token":"bytes:\\xa9","bytes":[169],"logprob":-1,"top_logprobs":[{"token":"bytes:\\xa9","bytes":[169],"logprob":-1}]}],"refusal":null})"))
      << exchange->whole->body;
  EXPECT_TRUE(exchange->said(R"("finish_reason":"stop","stop_reason":3,"token_ids":[195,169])"));
  EXPECT_TRUE(exchange->said(R"("prompt_token_ids":[5,6])"));
}

TEST(CompletionResponse, OfAnEchoSaysTheLikelihoodOfThePromptAndCountsItsOwnTokens) {
  auto exchange = std::make_shared<Recorder>();
  BodyWriter writer(format<CompletionFormat>({false, false, false, true}, 1), 1, exchange);
  writer.start({{{97, 98}}, {}});
  auto first = delta(0, "abc", {token('a', "a"), token('b', "b", -2.0F, {{'z', -1.0F}}), token('c', "c")}, 1);
  first.tokens[0].logprob.reset();
  first.echoed = 2;
  writer.delta(first);
  writer.end_choice({0, model::FinishReason::length, {}, {}});
  writer.finish({2, 1, 0, 0});
  EXPECT_TRUE(exchange->said(
      R"("text":"abc","logprobs":{"tokens":["a","b","c"],"token_logprobs":[null,-2,-0.5],"top_logprobs":[null,{"z":-1,"b":-2},{}],"text_offset":[0,1,2]})"))
      << exchange->whole->body;
  EXPECT_TRUE(exchange->said(R"("token_ids":[99],"prompt_token_ids":[97,98])")) << exchange->whole->body;
}

TEST(ChatResponse, OfAnEngineErrorIsA500) {
  auto exchange = std::make_shared<Recorder>();
  BodyWriter writer(format<ChatFormat>(), 2, exchange);
  writer.start({{{1}}, {}});
  writer.delta(delta(0, "x"));
  writer.end_choice({0, model::FinishReason::stop, {}, {}});
  writer.engine_error(model::StepError{"step 7 failed"});
  writer.end_choice({1, model::FinishReason::error, {}, {}});
  writer.finish({});
  EXPECT_EQ(exchange->whole->status, 500);
  EXPECT_EQ(
      exchange->whole->body,
      R"({"error":{"message":"step 7 failed","type":"server_error","param":null,"code":"engine_error"}})");
}

TEST(ChatResponse, OfATimeOutIsWhatCameSoFar) {
  auto exchange = std::make_shared<Recorder>();
  BodyWriter writer(format<ChatFormat>(), 1, exchange);
  writer.start({{{1}}, {}});
  writer.delta(delta(0, "x"));
  writer.end_choice({0, model::FinishReason::timeout, {}, {}});
  writer.finish({});
  EXPECT_EQ(exchange->whole->status, 200);
  EXPECT_TRUE(exchange->said(R"("finish_reason":"timeout")"));
}

TEST(BodyWriter, AnswersWhenItsRequestActorDies) {
  auto exchange = std::make_shared<Recorder>();
  { BodyWriter writer(format<ChatFormat>(), 1, exchange); }
  ASSERT_TRUE(exchange->whole);
  EXPECT_EQ(exchange->whole->status, 500);
}

TEST(SseWriter, WritesAChatStream) {
  auto exchange = std::make_shared<Recorder>();
  SseWriter writer(format<ChatFormat>({true, true, false, false}), 1, 1, exchange);
  writer.start({{{1, 2}}, {}});
  writer.delta({0, "", "hm", {}, 1});
  writer.delta({0, "", "", {token(1, "x")}, 2});  // no text yet: nothing to say
  writer.delta(delta(0, "Hi", {}, 3));
  writer.end_choice({0, model::FinishReason::stop, {}, {}});
  writer.delta(delta(0, "late"));
  writer.finish(kCounts);
  const std::string open =
      R"(data: {"id":"id-1","object":"chat.completion.chunk","created":7,"model":"mini","choices":[)";
  const std::string none = ",\"usage\":null}\n\n";
  EXPECT_EQ(
      exchange->stream,
      open +
          R"({"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}])" +
          none +  //
          open + R"({"index":0,"delta":{"reasoning_content":"hm"},"logprobs":null,"finish_reason":null}])" +
          none +                                                                                           //
          open + R"({"index":0,"delta":{"content":"Hi"},"logprobs":null,"finish_reason":null}])" + none +  //
          open + R"({"index":0,"delta":{},"logprobs":null,"finish_reason":"stop","stop_reason":null}])" +
          none +  //
          open + R"(],"usage":)" + kUsage + "}\n\ndata: [DONE]\n\n");
  EXPECT_TRUE(exchange->closed);
}

TEST(SseWriter, EndsEveryChoiceOnce) {
  auto exchange = std::make_shared<Recorder>();
  SseWriter writer(format<ChatFormat>({true, false, false, false}, -1, 2), 2, 2, exchange);
  writer.start({{{1}}, {}});
  writer.end_choice({1, model::FinishReason::length, {}, {}});
  writer.end_choice({1, model::FinishReason::stop, {}, {}});
  writer.end_choice({0, model::FinishReason::stop, {}, {}});
  writer.finish({});
  EXPECT_FALSE(exchange->said("\"usage\""));
  EXPECT_TRUE(exchange->said(R"({"index":1,"delta":{},"logprobs":null,"finish_reason":"length")"));
  EXPECT_FALSE(exchange->said(R"({"index":1,"delta":{},"logprobs":null,"finish_reason":"stop")"));
  EXPECT_TRUE(exchange->said(R"({"index":0,"delta":{},"logprobs":null,"finish_reason":"stop")"));
}

TEST(SseWriter, TellsAnEngineErrorAsOne) {
  auto exchange = std::make_shared<Recorder>();
  SseWriter writer(format<CompletionFormat>({true, false, false, false}), 1, 1, exchange);
  writer.start({{{1}}, {}});
  writer.delta(delta(0, "x"));
  writer.engine_error(model::StepError{"step 7 failed"});
  writer.end_choice({0, model::FinishReason::error, {}, {}});
  writer.finish({});
  EXPECT_TRUE(exchange->said(R"("text":"","logprobs":null,"finish_reason":"error","stop_reason":null)"));
  EXPECT_TRUE(exchange->said(
      R"("choices":[],"error":{"message":"step 7 failed","type":"server_error","param":null,"code":"engine_error"}})"));
  EXPECT_TRUE(exchange->stream.ends_with("data: [DONE]\n\n"));
  EXPECT_FALSE(exchange->said("\"finish_reason\":\"stop\""));
}

TEST(SseWriter, CountsOnEveryChunkWhenAskedAndEndsOnTheTotal) {
  auto exchange = std::make_shared<Recorder>();
  SseWriter writer(format<ChatFormat>({true, true, true, false}), 1, 1, exchange);
  writer.start({{{1, 2}}, {}});
  writer.delta(delta(0, "a", {}, 1));
  writer.end_choice({0, model::FinishReason::stop, {}, {}});
  writer.finish({2, 2, 0, 0});
  const auto at = [&](const char* count) {
    return exchange->stream.find(std::string("\"completion_tokens\":") + count);
  };
  EXPECT_LT(at("0,"), at("1,"));
  EXPECT_LT(at("1,"), at("2,"));
  EXPECT_FALSE(exchange->said("\"usage\":null"));
  EXPECT_LT(exchange->stream.find("\"finish_reason\":\"stop\""),
            at("2,"));  // the last choice's chunk has the final count
}

TEST(SseWriter, OpensNoStreamForARefusal) {
  auto exchange = std::make_shared<Recorder>();
  SseWriter writer(format<ChatFormat>({true, false, false, false}), 1, 1, exchange);
  writer.fail({model::RequestError::Kind::too_long, "too long", "messages", "context_length_exceeded"});
  EXPECT_FALSE(exchange->head);
  EXPECT_EQ(exchange->whole->status, 400);
  EXPECT_EQ(
      exchange->whole->body,
      R"({"error":{"message":"too long","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}})");
}

TEST(CompletionResponse, CarriesLogprobsInFourLists) {
  auto exchange = std::make_shared<Recorder>();
  BodyWriter writer(format<CompletionFormat>({}, 2), 1, exchange);
  writer.start({{{1}}, {}});
  writer.delta(
      delta(0, "aé",
            {token(97, "a", -0.5F, {{97, -0.5F}, {98, -2.0F}}), token(0xC3, "\xC3"), token(0xA9, "\xA9")}));
  writer.end_choice({0, model::FinishReason::stop, {}, {}});
  writer.finish({1, 3, 0, 0});
  EXPECT_TRUE(exchange->said(
      R"("choices":[{"index":0,"text":"aé","logprobs":{"tokens":["a","bytes:\\xc3","bytes:\\xa9"],"token_logprobs":[-0.5,-0.5,-0.5],)"
      R"("top_logprobs":[{"a":-0.5,"b":-2},{},{}],"text_offset":[0,1,2]},"finish_reason":"stop","stop_reason":null}])"))
      << exchange->whole->body;
}

TEST(CompletionResponse, GoesOnCountingItsTextFromChunkToChunk) {
  CompletionFormat format(kHead, {true, false, false, false}, 1, 0, std::make_shared<ByteTokenizer>());
  format.delta_chunk(delta(1, "ab", {token(97, "ab")}), "");
  EXPECT_NE(format.delta_chunk(delta(1, "c", {token(99, "c")}), "").find(R"("text_offset":[2])"),
            std::string::npos);
  EXPECT_NE(format.delta_chunk(delta(0, "c", {token(99, "c")}), "").find(R"("text_offset":[0])"),
            std::string::npos);
}

TEST(ErrorBody, MapsEveryKindToItsStatus) {
  using Kind = model::RequestError::Kind;
  struct Case {
    Kind kind;
    int status;
    const char* code;
    bool retry;
  };
  const Case cases[] = {{Kind::invalid, 400, "", false},
                        {Kind::too_long, 400, "context_length_exceeded", false},
                        {Kind::model_not_found, 404, "model_not_found", false},
                        {Kind::unsupported, 501, "not_implemented", false},
                        {Kind::overloaded, 429, "rate_limit_exceeded", true},
                        {Kind::unavailable, 503, "overloaded", true}};
  for (const auto& c : cases) {
    const ApiError error = api_error({c.kind, "what", "", ""});
    EXPECT_EQ(error.status, c.status);
    EXPECT_EQ(error.code, c.code);
    EXPECT_EQ(!error_response(error).headers.empty(), c.retry);
  }
}

}  // namespace
}  // namespace http::openai
