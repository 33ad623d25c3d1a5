#pragma once

#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "model/text/jinja/value.h"

namespace model::text::jinja {

using Filter = Value (*)(Runtime&, const Value& input, Args args);
using Test = bool (*)(Runtime&, const Value& input, Args args);
using Method = Value (*)(Runtime&, const Value& self, Args args);

/// Null for a name that this language does not have.
Filter find_filter(std::string_view name);
Test find_test(std::string_view name);
Method find_text_method(std::string_view name);
Method find_list_method(List::Shape shape, std::string_view name);
Method find_dict_method(std::string_view name);
/// A function of the outermost scope: range, namespace, raise_exception, …; null for none.
const Value* find_global(std::string_view name);

/// Arguments by parameter, positional first; fails for unknown, repeated, missing and surplus ones, naming
/// `what`.
class Bound {
 public:
  Bound(Args args, std::string_view what, std::initializer_list<std::string_view> parameters,
        std::size_t required = 0);
  bool has(std::size_t i) const { return values_[i].has_value(); }
  const Value& operator[](std::size_t i) const { return *values_[i]; }
  const Value* get(std::size_t i) const { return values_[i] ? &*values_[i] : nullptr; }
  bool flag(std::size_t i, bool otherwise) const;
  std::int64_t integer(std::size_t i, std::int64_t otherwise) const;
  const Text& text(std::size_t i) const;

 private:
  std::string what_;
  std::vector<std::optional<Value>> values_;
};

/// The string that a filter or method works on; fails for what is none.
const Text& require_text(const Value& value, std::string_view what);

}  // namespace model::text::jinja
