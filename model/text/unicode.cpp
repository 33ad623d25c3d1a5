#include "model/text/unicode.h"

#include <cstdint>
#include <cstring>

namespace model::text {
namespace {

constexpr std::uint8_t byte_at(std::string_view text, std::size_t at) {
  return static_cast<std::uint8_t>(text[at]);
}

/// What a lead byte asks for. The second byte's range is what keeps overlong forms, surrogates and values
/// above U+10FFFF out.
struct Lead {
  std::size_t length;  // 0: no lead byte
  std::uint8_t second_low, second_high;
};

constexpr Lead lead_of(std::uint8_t byte) {
  if (byte >= 0xC2 && byte <= 0xDF) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

std::size_t ascii_prefix(std::string_view text) {
  std::size_t at = 0;
  for (; at + 8 <= text.size(); at += 8) {
    std::uint64_t word;
    std::memcpy(&word, text.data() + at, 8);
    if ((word & 0x8080808080808080U) != 0) break;
  }
  while (at < text.size() && byte_at(text, at) < 0x80) ++at;
  return at;
}

}  // namespace

Utf8Unit first_utf8_unit(std::string_view text) {
  using Kind = Utf8Unit::Kind;
  const std::uint8_t first = byte_at(text, 0);
  if (first < 0x80) return {Kind::whole, 1};
  const Lead lead = lead_of(first);
  if (lead.length == 0) return {Kind::broken, 1};
  for (std::size_t i = 1; i < lead.length; ++i) {
    if (i == text.size()) return {Kind::incomplete, i};
    const std::uint8_t low = i == 1 ? lead.second_low : 0x80;
    const std::uint8_t high = i == 1 ? lead.second_high : 0xBF;
    if (byte_at(text, i) < low || byte_at(text, i) > high) return {Kind::broken, i};
  }
  return {Kind::whole, lead.length};
}

std::size_t valid_utf8_prefix(std::string_view text) {
  std::size_t at = 0;
  while (true) {
    at += ascii_prefix(text.substr(at));
    if (at == text.size()) return at;
    const Utf8Unit unit = first_utf8_unit(text.substr(at));
    if (unit.kind != Utf8Unit::Kind::whole) return at;
    at += unit.length;
  }
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (true) {
    const std::size_t valid = valid_utf8_prefix(text);
    out.append(text.substr(0, valid));
    text.remove_prefix(valid);
    if (text.empty()) return out;
    out.append(kReplacementCharacter);
    text.remove_prefix(first_utf8_unit(text).length);
  }
}

std::string printable(std::string_view text) {
  std::string out = replace_invalid_utf8(text);
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  }
  return out;
}

char32_t first_code_point(std::string_view text) {
  const std::uint8_t first = byte_at(text, 0);
  const std::size_t length = first < 0x80 ? 1 : lead_of(first).length;
  if (length < 2) return first;
  char32_t value = first & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) value = value << 6 | (byte_at(text, i) & 0x3FU);
  return value;
}

char32_t last_code_point(std::string_view text) {
  std::size_t start = text.size() - 1;
  while (start > 0 && (byte_at(text, start) & 0xC0) == 0x80) --start;
  return first_code_point(text.substr(start));
}

void append_utf8(std::string& out, char32_t code_point) {
  const auto put = [&out](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | code_point >> 6);
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | code_point >> 12);
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | code_point >> 18);
    put(0x80 | (code_point >> 12 & 0x3F));
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

}  // namespace model::text
