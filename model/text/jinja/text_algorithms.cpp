#include "model/text/jinja/text_algorithms.h"

#include <algorithm>

namespace model::text::jinja {
namespace {

bool is_line_end(char32_t code) {
  return (code >= 0x0A && code <= 0x0D) || (code >= 0x1C && code <= 0x1E) || code == 0x85 || code == 0x2028 ||
         code == 0x2029;
}

std::vector<ByteRange> split_blanks(const Text& text, std::int64_t limit) {
  const auto bytes = text.bytes();
  std::vector<ByteRange> parts;
  std::size_t at = 0;
  const auto skip = [&](bool blanks) {
    while (at < bytes.size() && is_space(code_point(bytes, at)) == blanks) at += code_point_size(bytes, at);
  };
  for (skip(true); at < bytes.size(); skip(true)) {
    const std::size_t first = at;
    if (limit-- == 0) {
      parts.push_back({first, bytes.size()});
      break;
    }
    skip(false);
    parts.push_back({first, at});
  }
  return parts;
}

std::vector<ByteRange> split_blanks_from_right(const Text& text, std::int64_t limit) {
  const auto bytes = text.bytes();
  std::vector<ByteRange> parts;
  std::size_t at = bytes.size();
  const auto skip = [&](bool blanks) {
    while (at > 0 && is_space(code_point(bytes, code_point_before(bytes, at))) == blanks)
      at = code_point_before(bytes, at);
  };
  for (skip(true); at > 0; skip(true)) {
    const std::size_t last = at;
    if (limit-- == 0) {
      parts.push_back({0, last});
      break;
    }
    skip(false);
    parts.push_back({at, last});
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

}  // namespace

Text strip(Runtime& runtime, const Text& text, const Text* chars, Side side) {
  runtime.work(text.size());
  const auto bytes = text.bytes();
  const auto stripped = [&](std::size_t at) {
    if (!chars) return is_space(code_point(bytes, at));
    runtime.work(chars->size());
    return chars->bytes().find(bytes.substr(at, code_point_size(bytes, at))) != std::string_view::npos;
  };
  std::size_t first = 0, last = bytes.size();
  if (side != Side::right) {
    while (first < last && stripped(first)) first += code_point_size(bytes, first);
  }
  if (side != Side::left) {
    while (last > first && stripped(code_point_before(bytes, last))) last = code_point_before(bytes, last);
  }
  return text.slice(first, last);
}

Text replace(Runtime& runtime, const Text& text, const Text& from, const Text& to, std::int64_t count) {
  runtime.work(text.size());
  const auto bytes = text.bytes();
  Builder out(runtime);
  std::size_t at = 0;
  while (count != 0) {
    std::size_t found = find_bytes(bytes, from.bytes(), at);
    if (found == std::string_view::npos) break;
    runtime.step();
    out.add(text, at, found);
    out.add(to);
    at = found + from.size();
    if (count > 0) --count;
    if (from.empty()) {  // between all characters, and at both ends
      if (at == bytes.size()) break;
      const std::size_t next = at + code_point_size(bytes, at);
      out.add(text, at, next);
      at = next;
    }
  }
  out.add(text, at, bytes.size());
  return out.take();
}

std::vector<ByteRange> split_lines(Runtime& runtime, const Text& text, bool keep_ends) {
  runtime.work(text.size());
  const auto bytes = text.bytes();
  std::vector<ByteRange> lines;
  std::size_t first = 0;
  for (std::size_t at = 0; at < bytes.size();) {
    std::size_t next = at + code_point_size(bytes, at);
    if (is_line_end(code_point(bytes, at))) {
      if (bytes[at] == '\r' && next < bytes.size() && bytes[next] == '\n') ++next;
      runtime.check_items(lines.size() + 1);
      lines.push_back({first, keep_ends ? next : at});
      first = next;
    }
    at = next;
  }
  if (first < bytes.size()) lines.push_back({first, bytes.size()});
  return lines;
}

std::vector<ByteRange> split(Runtime& runtime, const Text& text, const Text* separator, std::int64_t limit,
                             bool from_right) {
  runtime.work(text.size());
  if (!separator) return from_right ? split_blanks_from_right(text, limit) : split_blanks(text, limit);
  if (separator->empty()) fail("empty separator");
  const auto bytes = text.bytes();
  std::vector<ByteRange> parts;
  if (from_right) {
    std::size_t end = bytes.size();
    while (limit != 0 && end >= separator->size()) {
      const std::size_t found = bytes.substr(0, end).rfind(separator->bytes());
      if (found == std::string_view::npos) break;
      runtime.work(end - found);
      parts.push_back({found + separator->size(), end});
      end = found;
      if (limit > 0) --limit;
    }
    parts.push_back({0, end});
    std::reverse(parts.begin(), parts.end());
    return parts;
  }
  std::size_t at = 0;
  while (limit != 0) {
    const std::size_t found = find_bytes(bytes, separator->bytes(), at);
    if (found == std::string_view::npos) break;
    runtime.check_items(parts.size() + 1);
    parts.push_back({at, found});
    at = found + separator->size();
    if (limit > 0) --limit;
  }
  parts.push_back({at, bytes.size()});
  return parts;
}

Text pad(Runtime& runtime, const Text& text, std::int64_t width, const Text& fill, Side added) {
  const auto size = static_cast<std::int64_t>(count_code_points(text.bytes()));
  const std::int64_t missing = width > size ? width - size : 0;
  // str.center puts the odd one out to the left when the width is odd
  const std::int64_t before = added == Side::left    ? missing
                              : added == Side::right ? 0
                                                     : missing / 2 + (missing & width & 1);
  Builder out(runtime);
  out.repeat(fill, static_cast<std::size_t>(before));
  out.add(text);
  out.repeat(fill, static_cast<std::size_t>(missing - before));
  return out.take();
}

}  // namespace model::text::jinja
