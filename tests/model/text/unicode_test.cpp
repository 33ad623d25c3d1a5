#include "model/text/unicode.h"

#include <gtest/gtest.h>

namespace model::text {
namespace {

using Kind = Utf8Unit::Kind;

TEST(Unicode, UnitsAreWholeCodePointsOrMaximalSubparts) {
  const struct {
    std::string_view text;
    Kind kind;
    std::size_t length;
  } cases[] = {
      {"a", Kind::whole, 1},
      {"\x7F", Kind::whole, 1},
      {"\x80", Kind::broken, 1},
      {"\xC1\xBF", Kind::broken, 1},  // overlong
      {"\xC2\x80", Kind::whole, 2},
      {"\xC2", Kind::incomplete, 1},
      {"\xC2z", Kind::broken, 1},
      {"\xE0\x9F\xBF", Kind::broken, 1},  // overlong
      {"\xE0\xA0\x80", Kind::whole, 3},
      {"\xED\x9F\xBF", Kind::whole, 3},
      {"\xED\xA0\x80", Kind::broken, 1},  // surrogate
      {"\xED\xA0", Kind::broken, 1},      // broken already, although the text ends
      {"\xE2\x82", Kind::incomplete, 2},
      {"\xE2\x82z", Kind::broken, 2},
      {"\xF0\x8F\xBF\xBF", Kind::broken, 1},  // overlong
      {"\xF0\x90\x80\x80", Kind::whole, 4},
      {"\xF0\x9F\x98", Kind::incomplete, 3},
      {"\xF0\x9F\x98z", Kind::broken, 3},
      {"\xF4\x8F\xBF\xBF", Kind::whole, 4},
      {"\xF4\x90\x80\x80", Kind::broken, 1},  // above U+10FFFF
      {"\xF5", Kind::broken, 1},
      {"\xFF", Kind::broken, 1},
  };
  for (const auto& c : cases) {
    const Utf8Unit unit = first_utf8_unit(c.text);
    EXPECT_EQ(unit.kind, c.kind) << testing::PrintToString(c.text);
    EXPECT_EQ(unit.length, c.length) << testing::PrintToString(c.text);
  }
}

TEST(Unicode, TheValidPrefixEndsBeforeTheFirstBrokenUnit) {
  EXPECT_EQ(valid_utf8_prefix(""), 0U);
  EXPECT_EQ(valid_utf8_prefix("0123456789abcdefg"), 17U);
  EXPECT_EQ(valid_utf8_prefix("01234567é9\x80"), 11U);
  EXPECT_EQ(valid_utf8_prefix("0123456\x80"), 7U);
}

TEST(Unicode, CodePointsAreReadFromBothEndsAndWrittenBack) {
  for (const char32_t value :
       {U'\0', U'a', U'\x7F', U'\x80', U'\x7FF', U'\x800', U'\xFFFD', U'\x10000', U'\x10FFFF'}) {
    std::string text;
    append_utf8(text, value);
    EXPECT_EQ(valid_utf8_prefix(text), text.size());
    EXPECT_EQ(first_code_point(text + "é"), value);
    EXPECT_EQ(last_code_point("é" + text), value);
  }
}

TEST(Unicode, EachMaximalSubpartBecomesOneReplacementCharacter) {
  EXPECT_EQ(replace_invalid_utf8("a\xF0\x9F\x98\xC3z\x80"), "a\uFFFD\uFFFDz\uFFFD");
  EXPECT_EQ(replace_invalid_utf8("\xF0\x9F"), "\uFFFD");
}

TEST(Unicode, WhatIsPrintedMovesNoCursor) {
  EXPECT_EQ(printable("blk\x1b[31m\né\xff\x7f"), "blk?[31m?é\uFFFD?");
}

}  // namespace
}  // namespace model::text
