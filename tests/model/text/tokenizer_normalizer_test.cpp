#include "model/text/tokenizer_normalizer.h"

#include <gtest/gtest.h>
#include <unicode/normalizer2.h>

#include <random>
#include <string>
#include <vector>

#include "model/text/unicode.h"

namespace model::text {
namespace {

std::string icu_nfc(const std::string& text) {
  UErrorCode status = U_ZERO_ERROR;
  const auto* nfc = icu::Normalizer2::getNFCInstance(status);
  std::string out;
  nfc->normalize(icu::UnicodeString::fromUTF8(text), status).toUTF8String(out);
  EXPECT_TRUE(U_SUCCESS(status));
  return out;
}

TEST(Normalizer, LongRunsOfMarksComeOutAsIcuHasThem) {
  const std::vector<char32_t> marks = {0x300, 0x301, 0x316, 0x323, 0x327, 0x344,  0x345,   0x5B0, 0x64B,
                                       0x93C, 0xF71, 0xF72, 0xF73, 0xF74, 0x3099, 0x1D165, 0x302A};
  const std::vector<char32_t> starters = {U'a',   U'e',   0xE9,   0x1E69, 0xAC00,
                                          0x1100, 0x1161, 0x11A8, 0x4E2D, 0x1F600};
  const unsigned seed = 20261130;
  std::mt19937 random(seed);
  for (int round = 0; round < 400; ++round) {
    std::string text;
    for (int part = 0; part < 4; ++part) {
      if (random() % 4 != 0) append_utf8(text, starters[random() % starters.size()]);
      const std::size_t length = random() % 100;
      for (std::size_t i = 0; i < length; ++i) append_utf8(text, marks[random() % marks.size()]);
    }
    const std::string wanted = icu_nfc(text);
    EXPECT_EQ(to_nfc(text, {}).text, wanted) << "seed " << seed << ", round " << round;
    EXPECT_EQ(is_nfc(text), text == wanted) << "seed " << seed << ", round " << round;
    EXPECT_TRUE(is_nfc(wanted)) << "seed " << seed << ", round " << round;
  }
}

TEST(Normalizer, ARunOfMarksWithALiteralPartIsLiteralAsAWhole) {
  std::string text = "a";
  for (int i = 0; i < 40; ++i) text += "\xCC\x81\xCC\xA3";  // U+0301 U+0323: out of order
  const std::size_t end = text.size();
  text += "<x>";
  const RewrittenText out = to_nfc(text, {{20, 22}});
  ASSERT_EQ(out.literal.size(), 1U);
  EXPECT_LE(out.literal[0].first, 20U);
  EXPECT_LE(out.literal[0].last, out.text.size() - 3);
  EXPECT_GT(out.literal[0].last, end / 2);
}

// Quadratic work would take minutes here; the test's own time limit ends it.
TEST(Normalizer, ThreeMegabytesOfDisorderedMarksAreDoneInTime) {
  std::string text = "a";
  for (int i = 0; i < 330'000; ++i) text += "\xE0\xBD\xB1\xE0\xBD\xB2\xE0\xBD\xB4";
  EXPECT_FALSE(is_nfc(text));
  const std::string once = to_nfc(text, {}).text;
  EXPECT_TRUE(is_nfc(once));
}

}  // namespace
}  // namespace model::text
