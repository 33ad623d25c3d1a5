#include "model/text/json_escape.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

namespace model::text {
namespace {

std::string escaped(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

TEST(JsonEscape, EscapesOnlyWhatJsonRequires) {
  EXPECT_EQ(escaped("a\"b\\c/d"), R"("a\"b\\c/d")");
  EXPECT_EQ(escaped("\b\f\n\r\t\x01\x1f"), R"("\b\f\n\r\t\u0001\u001f")");
  EXPECT_EQ(escaped(std::string_view("\0", 1)), R"("\u0000")");
  EXPECT_EQ(escaped("größe \x7f 😀"), "\"größe \x7f 😀\"");
}

TEST(JsonEscape, AppendsBehindWhatIsThere) {
  std::string out = "x";
  append_json_string(out, "");
  EXPECT_EQ(out, "x\"\"");
}

TEST(JsonEscape, InvalidUtf8LeavesAsReplacementCharacters) {
  EXPECT_EQ(escaped("a\xFF\xF0\x9F\x98z"), "\"a\xEF\xBF\xBD\xEF\xBF\xBDz\"");
  EXPECT_EQ(escaped("\xED\xA0\x80"),
            "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");  // a surrogate: three broken bytes
  EXPECT_EQ(escaped("\xE2\x82"), "\"\xEF\xBF\xBD\"");
}

TEST(JsonEscape, AnyBytesGiveAStringThatAParserReads) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes(random() % 40, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    const auto parsed = nlohmann::json::parse(escaped(bytes), nullptr, false);
    ASSERT_TRUE(parsed.is_string()) << "round " << round;
    EXPECT_EQ(parsed.dump(-1, ' ', false),
              nlohmann::json(bytes).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }
}

}  // namespace
}  // namespace model::text
