#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace http {

struct Header {
  std::string name;
  std::string value;
};

/// One request as it came, complete.
struct Request {
  std::string method;  ///< as sent; methods are case-sensitive
  std::string path;    ///< of the target, percent-decoded, without the query
  std::vector<Header> headers;
  std::string body;
  std::string id;  ///< x-request-id of the client, or made: in every log line

  /// The first of that name, any case; "" when absent.
  std::string_view header(std::string_view name) const;
};

/// An answer, or the head of a stream (whose body stays empty).
struct Response {
  int status = 200;
  std::string body{};
  std::string content_type = "application/json";
  std::vector<Header> headers{};
};

enum class Framing { content_length, chunked, until_close };
enum class Persistence { keep_alive, close };

std::string_view reason_phrase(int status);
bool same_ignoring_case(std::string_view a, std::string_view b);

/// Status line and header fields with the blank line after them. Field values lose CR, LF and NUL: nobody can
/// add a field by a value.
std::string response_head(const Response& response, std::string_view request_id, Framing framing,
                          Persistence persistence);

/// Whether a request's head, as it came, can be read in one way only: every line ends CR LF, none continues
/// the line before it, and nothing else is a control character (a tab within a line is none).
bool is_plain_head(std::string_view head);

/// Path of a request target (origin or absolute form), decoded, without its query; "" when it is none.
std::string path_of_target(std::string_view target);

/// `wanted` when it is a sensible id (1 … 128 characters of A-Z a-z 0-9 . _ : / + = -), else one made from
/// `random`.
std::string request_id(std::string_view wanted, std::uint64_t random_high, std::uint64_t random_low);

}  // namespace http
