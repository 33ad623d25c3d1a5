#pragma once

#include "model/arch/limits.h"

#include <simdjson.h>

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace model {

/// Reads one object of a configuration file, key by key. A missing or wrong value becomes a problem that
/// names file and key, and the reader goes on with a value from the allowed range, so that all problems are
/// found in one pass. `null` counts as absent.
class ConfigReader {
 public:
  /// `path` is the prefix of the keys in problems: "" or "text_config.".
  ConfigReader(std::string_view file, std::string path, simdjson::dom::object object,
               std::vector<std::string>& problems);

  bool has(std::string_view key) const;
  /// Without a fallback the key is required.
  std::int64_t integer64(std::string_view key, IntegerRange range,
                         std::optional<std::int64_t> fallback = std::nullopt);
  std::int32_t integer(std::string_view key, IntegerRange range,
                       std::optional<std::int64_t> fallback = std::nullopt);
  double number(std::string_view key, NumberRange range, std::optional<double> fallback = std::nullopt);
  bool boolean(std::string_view key, bool fallback);
  std::optional<std::string_view> text(std::string_view key);
  std::optional<ConfigReader> object(std::string_view key);
  /// A number, or a list of numbers; absent: empty.
  std::vector<std::int32_t> integers(std::string_view key, IntegerRange range);
  /// A list of strings; nullopt when absent.
  std::optional<std::vector<std::string_view>> texts(std::string_view key);

  /// A problem about `key`: "<file>: <path><key> <what>". The key counts as wrong from here on.
  void problem(std::string_view key, std::string_view what);
  bool is_wrong(std::string_view key) const { return wrong_.count(key) != 0; }
  /// A rule about several keys. Skipped when one of them is already known to be wrong: its value is then a
  /// stand-in.
  void require(std::initializer_list<std::string_view> keys, bool holds, std::string_view what);

 private:
  std::optional<simdjson::dom::element> find(std::string_view key) const;

  std::string file_;
  std::string path_;
  simdjson::dom::object object_;
  std::vector<std::string>* problems_;
  std::set<std::string, std::less<>> wrong_;
};

/// Parses `json` into `parser` and gives its top object, or nullopt with a problem. `json` is copied.
std::optional<simdjson::dom::object> parse_object(simdjson::dom::parser& parser, std::string_view json,
                                                  std::string_view file, std::vector<std::string>& problems);

}  // namespace model
