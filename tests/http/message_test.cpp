#include "http/message.h"

#include <gtest/gtest.h>

namespace http {
namespace {

TEST(Message, TakesThePathOfATarget) {
  EXPECT_EQ(path_of_target("/v1/models?x=/y"), "/v1/models");
  EXPECT_EQ(path_of_target("/v1/models/a%2Fb"), "/v1/models/a/b");
  EXPECT_EQ(path_of_target("http://host:1/health#f"), "/health");
  EXPECT_EQ(path_of_target("http://host"), "/");
  EXPECT_EQ(path_of_target("*"), "*");
  for (const char* wrong : {"", "health", "/a%2", "/a%zz", "/a%"})
    EXPECT_EQ(path_of_target(wrong), "") << wrong;
}

TEST(Message, EchoesASensibleRequestIdOnly) {
  EXPECT_EQ(request_id("abc-1.2_3", 1, 2), "abc-1.2_3");
  for (const std::string wrong : {"", "a b", "a\r\nb", "é"})
    EXPECT_EQ(request_id(wrong, 1, 2), "req-00000000000000010000000000000002");
  EXPECT_EQ(request_id(std::string(129, 'a'), 0, 0), "req-" + std::string(32, '0'));
}

TEST(Message, LetsNoValueAddAField) {
  Response response{200, "x"};
  response.headers.push_back({"A", "b\r\nSet-Cookie: c"});
  const auto head = response_head(response, "id", Framing::content_length, Persistence::close);
  EXPECT_EQ(head,
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1\r\nx-request-id: "
            "id\r\nA: bSet-Cookie: c\r\nConnection: close\r\n\r\n");
}

TEST(Message, KnowsAHeadThatReadsInOneWayOnly) {
  EXPECT_TRUE(is_plain_head("GET / HTTP/1.1\r\nA: b\tc\r\nB: \xc3\xa9\r\n\r\n"));
  EXPECT_TRUE(is_plain_head("\r\nGET / HTTP/1.1\r\n\r\n"));
  for (const std::string wrong : {"A: b\r\n c\r\n\r\n", "A: b\r\n\tc\r\n\r\n", "A: b\nB: c\r\n\r\n",
                                  "A: b\rB: c\r\n\r\n", "A: b\x01\r\n\r\n", "A: b\x7f\r\n\r\n", "A: b\r"})
    EXPECT_FALSE(is_plain_head(wrong)) << wrong;
  EXPECT_FALSE(is_plain_head(std::string_view("A: \0\r\n\r\n", 8)));
}

TEST(Message, FindsFieldsInAnyCase) {
  Request request;
  request.headers = {{"X-One", "1"}, {"x-one", "2"}};
  EXPECT_EQ(request.header("x-ONE"), "1");
  EXPECT_EQ(request.header("none"), "");
}

}  // namespace
}  // namespace http
