#include "model/text/jinja/text.h"

#include <algorithm>
#include <cstring>

namespace model::text::jinja {

Text Text::own(std::string bytes) {
  Text text;
  text.bytes_ = std::move(bytes);
  return text;
}

Text Text::foreign(std::string bytes) {
  Text text = own(std::move(bytes));
  text.mark(0, text.size());
  return text;
}

void Text::mark(std::size_t first, std::size_t last) {
  if (first == last) return;
  if (!literal_.empty() && literal_.back().last == first) {
    literal_.back().last = last;
  } else {
    literal_.push_back({first, last});
  }
}

namespace {
auto first_range_ending_after(const std::vector<ByteRange>& ranges, std::size_t byte) {
  return std::upper_bound(ranges.begin(), ranges.end(), byte,
                          [](std::size_t at, const ByteRange& range) { return at < range.last; });
}
}  // namespace

bool Text::is_foreign(std::size_t byte) const {
  const auto range = first_range_ending_after(literal_, byte);
  return range != literal_.end() && range->first <= byte;
}

void Text::append(const Text& other, std::size_t first, std::size_t last) {
  const std::size_t base = size();
  bytes_.append(other.bytes_, first, last - first);
  for (auto range = first_range_ending_after(other.literal_, first);
       range != other.literal_.end() && range->first < last; ++range) {
    mark(base + std::max(range->first, first) - first, base + std::min(range->last, last) - first);
  }
}

void Text::append(std::string_view bytes, bool foreign) {
  const std::size_t base = size();
  bytes_.append(bytes);
  if (foreign) mark(base, size());
}

Text Text::slice(std::size_t first, std::size_t last) const {
  Text part;
  part.append(*this, first, last);
  return part;
}

std::size_t code_point_size(std::string_view text, std::size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  const std::size_t size = lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (size > text.size() - at) return 1;
  for (std::size_t i = 1; i < size; ++i) {
    if ((static_cast<unsigned char>(text[at + i]) & 0xC0) != 0x80) return 1;
  }
  return size;
}

char32_t code_point(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return static_cast<char32_t>(static_cast<unsigned char>(text[at + i]));
  };
  switch (code_point_size(text, at)) {
    case 2:
      return (byte(0) & 0x1F) << 6 | (byte(1) & 0x3F);
    case 3:
      return (byte(0) & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    case 4:
      return (byte(0) & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
    default:
      return byte(0);
  }
}

std::size_t code_point_before(std::string_view text, std::size_t end) {
  for (std::size_t back = 2; back <= 4 && back <= end; ++back) {
    if (code_point_size(text.substr(0, end), end - back) == back) return end - back;
  }
  return end - 1;
}

std::size_t count_code_points(std::string_view text) {
  std::size_t count = 0;
  for (std::size_t at = 0; at < text.size(); at += code_point_size(text, at)) ++count;
  return count;
}

std::size_t code_point_offset(std::string_view text, std::size_t index) {
  std::size_t at = 0;
  while (index > 0 && at < text.size()) {
    at += code_point_size(text, at);
    --index;
  }
  return at;
}

void append_utf8(std::string& out, char32_t code) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(static_cast<unsigned char>(byte))); };
  if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) code = 0xFFFD;
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6), put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12), put(0x80 | (code >> 6 & 0x3F)), put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18), put(0x80 | (code >> 12 & 0x3F)), put(0x80 | (code >> 6 & 0x3F)),
        put(0x80 | (code & 0x3F));
  }
}

std::size_t find_bytes(std::string_view text, std::string_view needle, std::size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (needle.empty()) return from;
  const void* found = memmem(text.data() + from, text.size() - from, needle.data(), needle.size());
  return found ? static_cast<std::size_t>(static_cast<const char*>(found) - text.data())
               : std::string_view::npos;
}

bool is_space(char32_t code) {
  return (code >= 0x09 && code <= 0x0D) || (code >= 0x1C && code <= 0x20) || code == 0x85 || code == 0xA0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 ||
         code == 0x202F || code == 0x205F || code == 0x3000;
}

}  // namespace model::text::jinja
