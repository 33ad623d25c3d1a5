#include "http/router.h"

namespace http {
namespace {

bool is_below(std::string_view path, std::string_view pattern) {
  if (!pattern.ends_with("/*")) return false;
  const std::string_view stem = pattern.substr(0, pattern.size() - 1);
  return path.size() > stem.size() && path.starts_with(stem);
}

}  // namespace

void Router::add(std::string method, std::string path, Handler handler) {
  routes_.push_back({std::move(method), std::move(path), std::move(handler)});
}

Router::Match Router::match(std::string_view method, std::string_view path) const {
  bool exact = false;
  for (const Route& route : routes_) exact = exact || route.path == path;
  const std::string_view wanted = method == "HEAD" ? "GET" : method;
  std::string allow;
  for (const Route& route : routes_) {
    if (exact ? route.path != path : !is_below(path, route.path)) continue;
    if (route.method == wanted) return &route.handler;
    if (!allow.empty()) allow += ", ";
    allow += route.method == "GET" ? "GET, HEAD" : route.method;
  }
  if (allow.empty()) return NotFound{};
  allow += ", OPTIONS";
  if (method == "OPTIONS") return Options{std::move(allow)};
  return WrongMethod{std::move(allow)};
}

}  // namespace http
