#pragma once

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/text/json_escape.h"

namespace model {

/// config.json in the making, and the GGUF key that each of its keys came from.
class ConfigWriter {
 public:
  void raw(std::string_view key, std::string_view json, std::string_view from = {}) {
    json_ += json_.empty() ? "{" : ",";
    text::append_json_string(json_, key);
    json_ += ':';
    json_ += json;
    if (!from.empty()) origins_.emplace_back(key, from);
  }
  void integer(std::string_view key, std::int64_t value, std::string_view from = {}) {
    raw(key, std::to_string(value), from);
  }
  void number(std::string_view key, double value, std::string_view from = {}) {
    char text[40];
    std::snprintf(text, sizeof text, "%.17g", value);
    raw(key, text, from);
  }
  void text(std::string_view key, std::string_view value, std::string_view from = {}) {
    std::string quoted;
    text::append_json_string(quoted, value);
    raw(key, quoted, from);
  }
  std::string json() const { return json_.empty() ? "{}" : json_ + '}'; }

  /// A problem about a key of config.json as one about the key that it came from.
  std::string translated(std::string problem, const std::string& file) const {
    if (!problem.starts_with(file + ": ")) return problem;
    const std::size_t first = file.size() + 2;
    const std::size_t end = std::min(problem.find(' ', first), problem.size());
    const std::string_view key = std::string_view(problem).substr(first, end - first);
    for (const auto& [name, from] : origins_) {
      if (name != key) continue;
      return problem.replace(first, end - first, "key \"" + from + "\" (" + name + ")");
    }
    return problem;
  }

 private:
  std::string json_;
  std::vector<std::pair<std::string, std::string>> origins_;
};

}  // namespace model
