#include "model/text/tokenizer_bytes.h"

#include <array>

#include "model/text/unicode.h"

namespace model::text {
namespace {

constexpr std::size_t kAlphabetEnd = 0x144;

constexpr bool stands_for_itself(std::size_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

/// Byte by code point; -1 outside the alphabet.
constexpr std::array<int, kAlphabetEnd> make_alphabet() {
  std::array<int, kAlphabetEnd> byte_by_code_point{};
  for (int& byte : byte_by_code_point) byte = -1;
  std::size_t next = 0x100;
  for (std::size_t byte = 0; byte < 0x100; ++byte)
    byte_by_code_point[stands_for_itself(byte) ? byte : next++] = static_cast<int>(byte);
  return byte_by_code_point;
}

constexpr auto kAlphabet = make_alphabet();

}  // namespace

std::optional<std::string> bytes_of_byte_level(std::string_view token) {
  std::string bytes;
  bytes.reserve(token.size());
  while (!token.empty()) {
    const char32_t code_point = first_code_point(token);
    if (code_point >= kAlphabetEnd || kAlphabet[code_point] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(kAlphabet[code_point]));
    token.remove_prefix(first_utf8_unit(token).length);
  }
  return bytes;
}

}  // namespace model::text
