#include "model/arch/config_reader.h"

#include <cmath>

namespace model {
namespace {

using simdjson::dom::element;

std::string show(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

}  // namespace

ConfigReader::ConfigReader(std::string_view file, std::string path, simdjson::dom::object object,
                           std::vector<std::string>& problems)
    : file_(file), path_(std::move(path)), object_(object), problems_(&problems) {
  // The parser keeps every member; a lookup would quietly take the first where other readers take the last.
  std::set<std::string_view> seen;
  for (const auto& member : object_) {
    if (!seen.insert(member.key).second) problem(member.key, "appears twice");
  }
}

std::optional<element> ConfigReader::find(std::string_view key) const {
  element value;
  if (object_.at_key(key).get(value) != simdjson::SUCCESS || value.is_null()) return std::nullopt;
  return value;
}

bool ConfigReader::has(std::string_view key) const { return find(key).has_value(); }

std::int64_t ConfigReader::integer64(std::string_view key, IntegerRange range,
                                     std::optional<std::int64_t> fallback) {
  const auto value = find(key);
  if (!value) {
    if (fallback) return *fallback;
    problem(key, "is missing");
    return range.min;
  }
  std::int64_t number = 0;
  if (value->get(number) != simdjson::SUCCESS) {
    problem(key, "is not an integer");
    return range.min;
  }
  if (number < range.min || number > range.max) {
    problem(key, "is " + std::to_string(number) + ", allowed are " + std::to_string(range.min) + " to " +
                     std::to_string(range.max));
    return range.min;
  }
  return number;
}

std::int32_t ConfigReader::integer(std::string_view key, IntegerRange range,
                                   std::optional<std::int64_t> fallback) {
  return static_cast<std::int32_t>(integer64(key, range, fallback));
}

double ConfigReader::number(std::string_view key, NumberRange range, std::optional<double> fallback) {
  const auto value = find(key);
  if (!value) {
    if (fallback) return *fallback;
    problem(key, "is missing");
    return range.min;
  }
  double number = 0.0;
  if (value->get(number) != simdjson::SUCCESS) {
    problem(key, "is not a number");
    return range.min;
  }
  if (!(number >= range.min && number <= range.max)) {
    problem(key, "is " + show(number) + ", allowed are " + show(range.min) + " to " + show(range.max));
    return range.min;
  }
  return number;
}

bool ConfigReader::boolean(std::string_view key, bool fallback) {
  const auto value = find(key);
  if (!value) return fallback;
  bool truth = fallback;
  if (value->get(truth) != simdjson::SUCCESS) problem(key, "is neither true nor false");
  return truth;
}

std::optional<std::string_view> ConfigReader::text(std::string_view key) {
  const auto value = find(key);
  if (!value) return std::nullopt;
  std::string_view text;
  if (value->get(text) != simdjson::SUCCESS) {
    problem(key, "is not a string");
    return std::nullopt;
  }
  return text;
}

std::optional<ConfigReader> ConfigReader::object(std::string_view key) {
  const auto value = find(key);
  if (!value) return std::nullopt;
  simdjson::dom::object object;
  if (value->get(object) != simdjson::SUCCESS) {
    problem(key, "is not an object");
    return std::nullopt;
  }
  return ConfigReader(file_, path_ + std::string(key) + ".", object, *problems_);
}

std::vector<std::int32_t> ConfigReader::integers(std::string_view key, IntegerRange range) {
  const auto value = find(key);
  if (!value) return {};
  std::vector<std::int32_t> numbers;
  const auto take = [&](element item) {
    std::int64_t number = 0;
    if (item.get(number) != simdjson::SUCCESS || number < range.min || number > range.max) return false;
    numbers.push_back(static_cast<std::int32_t>(number));
    return true;
  };
  bool fine = true;
  simdjson::dom::array list;
  if (value->get(list) == simdjson::SUCCESS) {
    for (element item : list) fine = fine && take(item);
  } else {
    fine = take(*value);
  }
  if (fine) return numbers;
  problem(key, "holds something else than integers from " + std::to_string(range.min) + " to " +
                   std::to_string(range.max));
  return {};
}

std::optional<std::vector<std::string_view>> ConfigReader::texts(std::string_view key) {
  const auto value = find(key);
  if (!value) return std::nullopt;
  std::vector<std::string_view> texts;
  simdjson::dom::array list;
  bool fine = value->get(list) == simdjson::SUCCESS;
  if (fine) {
    for (element item : list) {
      std::string_view text;
      fine = fine && item.get(text) == simdjson::SUCCESS;
      texts.push_back(text);
    }
  }
  if (fine) return texts;
  problem(key, "is not a list of strings");
  return std::nullopt;
}

void ConfigReader::problem(std::string_view key, std::string_view what) {
  wrong_.emplace(key);
  problems_->push_back(file_ + ": " + path_ + std::string(key) + " " + std::string(what));
}

void ConfigReader::require(std::initializer_list<std::string_view> keys, bool holds, std::string_view what) {
  if (holds) return;
  for (std::string_view key : keys) {
    if (is_wrong(key)) return;
  }
  problem(*keys.begin(), what);
}

std::optional<simdjson::dom::object> parse_object(simdjson::dom::parser& parser, std::string_view json,
                                                  std::string_view file, std::vector<std::string>& problems) {
  element root;
  if (const auto error = parser.parse(json.data(), json.size(), /*realloc_if_needed=*/true).get(root)) {
    problems.push_back(std::string(file) + ": not valid JSON: " + simdjson::error_message(error));
    return std::nullopt;
  }
  simdjson::dom::object object;
  if (root.get(object) != simdjson::SUCCESS) {
    problems.push_back(std::string(file) + ": not a JSON object");
    return std::nullopt;
  }
  return object;
}

}  // namespace model
