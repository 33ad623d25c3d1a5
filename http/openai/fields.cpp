#include "http/openai/fields.h"

#include <charconv>
#include <cmath>

namespace http::openai {
namespace {

std::string plain(double value) {
  char digits[32];
  return {digits, std::to_chars(digits, digits + sizeof digits, value).ptr};
}

template <class T>
std::optional<T> parse_whole(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool spells_integer(const Json& value) {
  return value.is(Json::Kind::number) && value.text.find_first_of(".eE") == std::string_view::npos;
}

}  // namespace

std::optional<std::int64_t> as_integer(const Json& value) {
  return value.is(Json::Kind::number) ? parse_whole<std::int64_t>(value.text) : std::nullopt;
}

std::optional<double> as_number(const Json& value) {
  return value.is(Json::Kind::number) ? parse_whole<double>(value.text) : std::nullopt;
}

const Json* Fields::find(std::string_view name) const {
  const Json* value = object_.find(name);
  return value == nullptr || value->is(Json::Kind::null) ? nullptr : value;
}

const Json* Fields::find(std::string_view name, Json::Kind kind) {
  const Json* value = find(name);
  if (value == nullptr || value->is(kind)) return value;
  refuse(path_of(name), path_of(name) + " has to be " + std::string(name_of(kind)) + ", not " +
                            std::string(name_of(value->kind)) + ".");
  return nullptr;
}

std::optional<bool> Fields::boolean(std::string_view name) {
  const Json* value = find(name, Json::Kind::boolean);
  return value == nullptr ? std::nullopt : std::optional(value->boolean);
}

std::optional<std::string_view> Fields::string(std::string_view name) {
  const Json* value = find(name, Json::Kind::string);
  return value == nullptr ? std::nullopt : std::optional(value->text);
}

std::optional<std::int64_t> Fields::integer(std::string_view name, std::int64_t least, std::int64_t most) {
  const Json* value = find(name, Json::Kind::number);
  if (value == nullptr) return std::nullopt;
  const auto number = as_integer(*value);
  if (number && *number >= least && *number <= most) return number;
  refuse(path_of(name), path_of(name) + " has to be an integer from " + std::to_string(least) + " to " +
                            std::to_string(most) + '.');
  return std::nullopt;
}

std::optional<std::uint64_t> Fields::seed(std::string_view name) {
  const Json* value = find(name, Json::Kind::number);
  if (value == nullptr) return std::nullopt;
  if (const auto number = parse_whole<std::uint64_t>(value->text)) return number;
  if (const auto number = as_integer(*value)) return static_cast<std::uint64_t>(*number);
  refuse(path_of(name),
         path_of(name) + (spells_integer(*value) ? " has to fit into 64 bits." : " has to be an integer."));
  return std::nullopt;
}

std::optional<float> Fields::number(std::string_view name, double least, double most, Bound bound) {
  const Json* value = find(name, Json::Kind::number);
  if (value == nullptr) return std::nullopt;
  const auto number = as_number(*value);
  const bool low =
      !number || !std::isfinite(*number) || *number < least || (bound == Bound::above && *number <= least);
  if (!low && *number <= most) return static_cast<float>(*number);
  refuse(path_of(name), path_of(name) + " has to be a number " +
                            (bound == Bound::above ? "above " : "from ") + plain(least) +
                            (bound == Bound::above ? " and at most " : " to ") + plain(most) + '.');
  return std::nullopt;
}

void Fields::refuse(std::string param, std::string what, std::string code) {
  refuse({model::RequestError::Kind::invalid, std::move(what), std::move(param), std::move(code)});
}

void Fields::refuse(model::RequestError error) {
  if (!error_) error_ = std::move(error);
}

void Fields::refuse_unsupported(std::string_view name) {
  refuse(path_of(name), path_of(name) + " is not supported by this server.", "unsupported_parameter");
}

}  // namespace http::openai
