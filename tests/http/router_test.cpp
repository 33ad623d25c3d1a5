#include "http/router.h"

#include <gtest/gtest.h>

namespace http {
namespace {

Router routes() {
  Router router;
  for (const auto& [method, path] : std::vector<std::pair<const char*, const char*>>{{"GET", "/v1/models"},
                                                                                     {"GET", "/v1/models/*"},
                                                                                     {"POST", "/v1/chat"},
                                                                                     {"POST", "/both"},
                                                                                     {"GET", "/both"}}) {
    router.add(method, path, [](const auto&, const auto&) {});
  }
  return router;
}

TEST(Router, MatchesMethodAndPath) {
  const Router router = routes();
  struct Case {
    const char *method, *path;
    bool found;
  };
  for (const auto& c :
       {Case{"GET", "/v1/models", true}, Case{"HEAD", "/v1/models", true},
        Case{"GET", "/v1/models/a/b", true}, Case{"POST", "/v1/chat", true}, Case{"GET", "/both", true},
        Case{"POST", "/both", true}, Case{"HEAD", "/v1/chat", false}, Case{"post", "/v1/chat", false},
        Case{"GET", "/v1/models/", false}, Case{"GET", "/v1/chat/", false}, Case{"GET", "", false}}) {
    EXPECT_EQ(std::holds_alternative<const Handler*>(router.match(c.method, c.path)), c.found)
        << c.method << c.path;
  }
}

TEST(Router, TellsAWrongMethodFromAnUnknownPath) {
  const Router router = routes();
  const auto wrong = router.match("DELETE", "/both");
  ASSERT_TRUE(std::holds_alternative<Router::WrongMethod>(wrong));
  EXPECT_EQ(std::get<Router::WrongMethod>(wrong).allow, "POST, GET, HEAD, OPTIONS");
  EXPECT_TRUE(std::holds_alternative<Router::NotFound>(router.match("GET", "/v2")));
  EXPECT_EQ(std::get<Router::Options>(router.match("OPTIONS", "/v1/chat")).allow, "POST, OPTIONS");
}

}  // namespace
}  // namespace http
