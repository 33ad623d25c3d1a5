#include "model/text/tokenizer_added.h"

#include <unicode/uchar.h>

#include <algorithm>

#include "model/text/unicode.h"

namespace model::text {
namespace {

bool is_white_space(char32_t c) { return u_isUWhiteSpace(static_cast<UChar32>(c)) != 0; }

/// \w of UTS #18, by which the library decides single_word.
bool is_word_character(char32_t code_point) {
  const auto c = static_cast<UChar32>(code_point);
  if (u_hasBinaryProperty(c, UCHAR_ALPHABETIC) != 0 || u_hasBinaryProperty(c, UCHAR_JOIN_CONTROL) != 0)
    return true;
  constexpr std::uint32_t kMarksDigitsConnectors = U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK;
  return (U_GET_GC_MASK(c) & kMarksDigitsConnectors) != 0;
}

std::size_t begin_of_white_space_before(std::string_view text, std::size_t at) {
  while (at > 0) {
    std::size_t start = at - 1;
    while (start > 0 && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) --start;
    if (!is_white_space(first_code_point(text.substr(start)))) return at;
    at = start;
  }
  return at;
}

std::size_t end_of_white_space_after(std::string_view text, std::size_t at) {
  while (at < text.size() && is_white_space(first_code_point(text.substr(at))))
    at += first_utf8_unit(text.substr(at)).length;
  return at;
}

bool stands_alone(std::string_view text, std::size_t first, std::size_t last) {
  return (first == 0 || !is_word_character(last_code_point(text.substr(0, first)))) &&
         (last == text.size() || !is_word_character(first_code_point(text.substr(last))));
}

}  // namespace

void AddedTokenFinder::add(const AddedToken& token, std::string_view content) {
  begins_token_[static_cast<unsigned char>(content.front())] = true;
  std::uint32_t node = 0;
  for (const char byte : content) {
    if (const std::uint32_t* next = child(node, byte)) {
      node = *next;
      continue;
    }
    const auto made = static_cast<std::uint32_t>(nodes_.size());
    auto& children = nodes_[node].children;
    children.insert(std::upper_bound(children.begin(), children.end(), std::pair{byte, 0U}), {byte, made});
    nodes_.emplace_back();
    node = made;
  }
  nodes_[node].token = static_cast<std::int32_t>(tokens_.size());
  tokens_.push_back({token.id, token.single_word, token.lstrip, token.rstrip});
}

const std::uint32_t* AddedTokenFinder::child(std::uint32_t node, char byte) const {
  const auto& children = nodes_[node].children;
  const auto at = std::lower_bound(children.begin(), children.end(), std::pair{byte, 0U});
  return at != children.end() && at->first == byte ? &at->second : nullptr;
}

AddedTokenFinder::Found AddedTokenFinder::longest_at(std::string_view text) const {
  Found found{nullptr, 0};
  std::uint32_t node = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::uint32_t* next = child(node, text[i]);
    if (next == nullptr) break;
    node = *next;
    if (nodes_[node].token >= 0) found = {&tokens_[static_cast<std::size_t>(nodes_[node].token)], i + 1};
  }
  return found;
}

std::vector<TextSection> AddedTokenFinder::sections(std::string_view text,
                                                    std::span<const ByteRange> literal) const {
  std::vector<TextSection> out;
  std::size_t told = 0;  // end of the last section
  // Between two literal ranges; the matches of one stretch follow each other without overlapping.
  const auto search = [&](std::size_t begin, std::size_t end) {
    const std::string_view stretch = text.substr(0, end);
    for (std::size_t at = begin; at < end;) {
      if (!begins_token_[static_cast<unsigned char>(text[at])]) {
        ++at;
        continue;
      }
      const auto [token, length] = longest_at(stretch.substr(at));
      if (token == nullptr) {
        ++at;
        continue;
      }
      ByteRange range{at, at + length};
      at += length;
      if (token->single_word && !stands_alone(text, range.first, range.last)) continue;
      if (token->lstrip)
        range.first =
            std::max({begin_of_white_space_before(text, range.first), begin, std::min(told, range.first)});
      if (token->rstrip) range.last = end_of_white_space_after(stretch, range.last);
      if (told < range.first) out.push_back({std::nullopt, {told, range.first}});
      out.push_back({token->id, range});
      told = range.last;
    }
  };
  std::size_t begin = 0;
  if (!empty()) {
    for (const ByteRange& range : literal) {
      search(begin, std::min(range.first, text.size()));
      begin = range.last;
    }
    search(begin, text.size());
  }
  if (told < text.size()) out.push_back({std::nullopt, {told, text.size()}});
  return out;
}

}  // namespace model::text
