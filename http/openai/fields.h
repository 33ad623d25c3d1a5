#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http/json.h"
#include "model/errors.h"

namespace http::openai {

/// Reads the members of a JSON object strictly: a wrong type or a value out of range is an error that names
/// the field, null is absent. The first error stays and later reads go on harmlessly, so a parser reads
/// everything and looks once.
class Fields {
 public:
  explicit Fields(const Json& object, std::string path = "") : object_(object), path_(std::move(path)) {}

  /// The member, unless absent or null.
  const Json* find(std::string_view name) const;
  const Json* find(std::string_view name, Json::Kind kind);

  std::optional<bool> boolean(std::string_view name);
  std::optional<std::int64_t> integer(std::string_view name, std::int64_t least, std::int64_t most);
  std::optional<std::uint64_t> seed(std::string_view name);
  /// `above`: least is excluded.
  enum class Bound { included, above };
  std::optional<float> number(std::string_view name, double least, double most,
                              Bound bound = Bound::included);
  std::optional<std::string_view> string(std::string_view name);

  std::string path_of(std::string_view name) const {
    return path_.empty() ? std::string(name) : path_ + '.' + std::string(name);
  }
  void refuse(std::string param, std::string what, std::string code = "");
  void refuse(model::RequestError error);
  /// A field of the API that this build does not serve: refused by name, never ignored.
  void refuse_unsupported(std::string_view name);

  bool ok() const { return !error_; }
  const std::optional<model::RequestError>& error() const { return error_; }

 private:
  const Json& object_;
  std::string path_;
  std::optional<model::RequestError> error_;
};

/// The integer that a JSON number spells without fraction and exponent.
std::optional<std::int64_t> as_integer(const Json& value);
std::optional<double> as_number(const Json& value);

}  // namespace http::openai
