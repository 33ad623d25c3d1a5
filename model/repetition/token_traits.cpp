#include "model/repetition/token_traits.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <cctype>

#include "model/text/unicode.h"

namespace model::repetition {
namespace {

/// Digits, punctuation, white space and what tables are drawn with; other symbols (emoji) speak like words.
bool is_filler(char32_t code_point) {
  if (code_point >= 0x2500 && code_point <= 0x259F) return true;  // box drawing, blocks
  constexpr std::uint32_t kFillers =
      U_GC_N_MASK | U_GC_P_MASK | U_GC_Z_MASK | U_GC_CC_MASK | U_GC_SM_MASK | U_GC_SC_MASK | U_GC_SK_MASK;
  return (U_GET_GC_MASK(static_cast<UChar32>(code_point)) & kFillers) != 0;
}

bool is_hexadecimal_number(std::string_view bytes) {
  const auto is = [](auto test) { return [test](char c) { return test(static_cast<unsigned char>(c)); }; };
  return std::all_of(bytes.begin(), bytes.end(), is([](int c) { return std::isxdigit(c) || c == 'x'; })) &&
         std::any_of(bytes.begin(), bytes.end(), is([](int c) { return std::isdigit(c); }));
}

enum class Kind { word, filler, nothing };

/// Of a part of a code point, by the byte that it begins with: E2 leads U+2000 to U+2FFF, which are
/// punctuation, symbols and table lines; bytes that continue were counted with their lead.
Kind kind_of_part(char first) {
  const auto byte = static_cast<unsigned char>(first);
  if (byte == 0xE2) return Kind::filler;
  return byte >= 0x80 && byte <= 0xBF ? Kind::nothing : Kind::word;
}

}  // namespace

TokenTraits::Weight weigh(std::string_view bytes) {
  constexpr std::size_t kWeighed = 4096;  // a longer token is known by its beginning
  bytes = bytes.substr(0, kWeighed);
  TokenTraits::Weight weight;
  if (is_hexadecimal_number(bytes)) {
    weight.fillers = static_cast<std::uint16_t>(bytes.size());
    return weight;
  }
  const bool after_space = bytes.size() > 1 && bytes.front() == ' ';
  for (std::string_view rest = bytes; !rest.empty();) {
    const auto unit = text::first_utf8_unit(rest);
    const Kind kind = unit.kind == text::Utf8Unit::Kind::whole
                          ? (is_filler(text::first_code_point(rest)) ? Kind::filler : Kind::word)
                          : kind_of_part(rest.front());
    rest.remove_prefix(unit.length);
    if (kind == Kind::nothing) continue;
    auto& count = kind == Kind::filler ? weight.fillers : weight.words;
    count = static_cast<std::uint16_t>(count + 1);
  }
  if (after_space && weight.words > 0) weight.fillers = static_cast<std::uint16_t>(weight.fillers - 1);
  return weight;
}

bool ends_line_or_sentence(std::string_view bytes) {
  if (bytes.find('\n') != std::string_view::npos) return true;
  const std::size_t last = bytes.find_last_not_of(" \t\"')]*_");
  bytes = bytes.substr(0, last == std::string_view::npos ? 0 : last + 1);
  for (const std::string_view mark : {".", "!", "?", "\u3002", "\uFF01", "\uFF1F", "\u2026", "\u0964"}) {
    if (bytes.ends_with(mark)) return true;
  }
  return false;
}

TokenTraits::TokenTraits(const text::Tokenizer& tokenizer) {
  traits_.reserve(static_cast<std::size_t>(tokenizer.size()));
  for (TokenId token = 0; token < tokenizer.size(); ++token) {
    const auto bytes = tokenizer.bytes(token);
    traits_.push_back({weigh(bytes), repetition::ends_line_or_sentence(bytes)});
  }
}

const TokenTraits::Traits* TokenTraits::find(TokenId token) const {
  const auto place = static_cast<std::size_t>(token);
  return token >= 0 && place < traits_.size() ? &traits_[place] : nullptr;
}

TokenTraits::Weight TokenTraits::weight(TokenId token) const {
  const Traits* traits = find(token);
  return traits == nullptr ? Weight{1, 0} : traits->weight;
}

bool TokenTraits::ends_line_or_sentence(TokenId token) const {
  const Traits* traits = find(token);
  return traits != nullptr && traits->ends;
}

}  // namespace model::repetition
