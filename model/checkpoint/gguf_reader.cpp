#include "model/checkpoint/gguf_reader.h"

#include <cmath>

namespace model {

const GgufValue* GgufReader::find(std::string_view key) const {
  const auto found = metadata_.find(key);
  return found == metadata_.end() ? nullptr : &found->second;
}

void GgufReader::problem(std::string_view key, std::string_view what) {
  problems_.push_back(file_ + ": key \"" + std::string(key) + "\" " + std::string(what));
}

void GgufReader::require(std::string_view key) {
  if (!has(key)) problem(key, "is missing");
}

std::optional<std::int64_t> GgufReader::integer(std::string_view key, IntegerRange range) {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto* number = std::get_if<std::int64_t>(value);
  if (number != nullptr && *number >= range.min && *number <= range.max) return *number;
  problem(key, (number == nullptr ? std::string("is no integer") : "is " + std::to_string(*number)) +
                   "; one from " + std::to_string(range.min) + " to " + std::to_string(range.max) +
                   " is needed");
  return std::nullopt;
}

std::optional<double> GgufReader::number(std::string_view key) {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* integer = std::get_if<std::int64_t>(value)) return static_cast<double>(*integer);
  if (const auto* number = std::get_if<double>(value); number != nullptr && std::isfinite(*number))
    return *number;
  problem(key, "is no finite number");
  return std::nullopt;
}

std::optional<bool> GgufReader::boolean(std::string_view key) {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* flag = std::get_if<bool>(value)) return *flag;
  problem(key, "is not true or false");
  return std::nullopt;
}

std::optional<std::string_view> GgufReader::text(std::string_view key) {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* text = std::get_if<std::string_view>(value)) return *text;
  problem(key, "is no text");
  return std::nullopt;
}

std::vector<std::int64_t> GgufReader::integers(std::string_view key) {
  const GgufValue* value = find(key);
  if (value == nullptr) return {};
  if (const auto* number = std::get_if<std::int64_t>(value)) return {*number};
  if (const auto* array = std::get_if<GgufArray>(value)) {
    auto numbers = array->integers();
    if (static_cast<std::int64_t>(numbers.size()) == array->size) return numbers;
  }
  problem(key, "is neither an integer nor a list of integers");
  return {};
}

std::vector<std::string_view> GgufReader::texts(std::string_view key) {
  const GgufValue* value = find(key);
  if (value == nullptr) return {};
  if (const auto* array = std::get_if<GgufArray>(value);
      array != nullptr && (array->type == GgufType::string || array->size == 0))
    return array->strings();
  problem(key, "is no list of texts");
  return {};
}

}  // namespace model
