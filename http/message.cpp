#include "http/message.h"

#include <algorithm>
#include <array>

namespace http {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char small = lower(c);
  return small >= 'a' && small <= 'f' ? small - 'a' + 10 : -1;
}

void append_field(std::string& out, std::string_view name, std::string_view value) {
  out += name;
  out += ": ";
  for (const char c : value) {
    if (c != '\r' && c != '\n' && c != '\0') out += c;
  }
  out += "\r\n";
}

}  // namespace

bool is_plain_head(std::string_view head) {
  while (head.substr(0, 2) == "\r\n") head.remove_prefix(2);  // before a request line they mean nothing
  for (std::size_t i = 0; i < head.size(); ++i) {
    const auto byte = static_cast<unsigned char>(head[i]);
    if (byte == '\n') return false;
    if (byte != '\r') {
      if ((byte < 0x20 && byte != '\t') || byte == 0x7F) return false;
      continue;
    }
    if (i + 1 >= head.size() || head[++i] != '\n') return false;
    if (i + 1 < head.size() && (head[i + 1] == ' ' || head[i + 1] == '\t')) return false;
  }
  return true;
}

bool same_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

std::string_view Request::header(std::string_view name) const {
  for (const Header& header : headers) {
    if (same_ignoring_case(header.name, name)) return header.value;
  }
  return {};
}

std::string_view reason_phrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Status";
  }
}

std::string response_head(const Response& response, std::string_view request_id, Framing framing,
                          Persistence persistence) {
  std::string out = "HTTP/1.1 " + std::to_string(response.status) + ' ';
  out += reason_phrase(response.status);
  out += "\r\n";
  if (!response.content_type.empty()) append_field(out, "Content-Type", response.content_type);
  if (framing == Framing::chunked) append_field(out, "Transfer-Encoding", "chunked");
  if (framing == Framing::content_length && response.status != 204) {
    append_field(out, "Content-Length", std::to_string(response.body.size()));
  }
  if (!request_id.empty()) append_field(out, "x-request-id", request_id);
  for (const Header& header : response.headers) append_field(out, header.name, header.value);
  append_field(out, "Connection", persistence == Persistence::keep_alive ? "keep-alive" : "close");
  out += "\r\n";
  return out;
}

std::string path_of_target(std::string_view target) {
  if (const auto scheme = target.find("://"); scheme != std::string_view::npos && target.front() != '/') {
    const auto slash = target.find('/', scheme + 3);
    target = slash == std::string_view::npos ? std::string_view("/") : target.substr(slash);
  }
  if (target.empty() || (target.front() != '/' && target != "*")) return "";
  target = target.substr(0, target.find_first_of("?#"));
  std::string path;
  for (std::size_t i = 0; i < target.size(); ++i) {
    if (target[i] != '%') {
      path += target[i];
      continue;
    }
    const int high = i + 2 < target.size() ? hex_digit(target[i + 1]) : -1;
    const int low = i + 2 < target.size() ? hex_digit(target[i + 2]) : -1;
    if (high < 0 || low < 0) return "";
    path += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return path;
}

std::string request_id(std::string_view wanted, std::uint64_t random_high, std::uint64_t random_low) {
  constexpr std::size_t kMaxLength = 128;
  const bool sensible =
      !wanted.empty() && wanted.size() <= kMaxLength && std::all_of(wanted.begin(), wanted.end(), [](char c) {
        return (lower(c) >= 'a' && lower(c) <= 'z') || (c >= '0' && c <= '9') ||
               std::string_view("._:/+=-").find(c) != std::string_view::npos;
      });
  if (sensible) return std::string(wanted);
  std::string made = "req-";
  for (const std::uint64_t half : {random_high, random_low}) {
    for (int shift = 60; shift >= 0; shift -= 4) made += "0123456789abcdef"[(half >> shift) & 0xFU];
  }
  return made;
}

}  // namespace http
