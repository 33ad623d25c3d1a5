#include <algorithm>

#include "model/text/jinja/builtins.h"

namespace model::text::jinja {

Bound::Bound(Args args, std::string_view what, std::initializer_list<std::string_view> parameters,
             std::size_t required)
    : what_(what), values_(parameters.size()) {
  if (args.positional.size() > parameters.size()) {
    fail(what_ + " takes at most " + std::to_string(parameters.size()) + " argument(s), got " +
         std::to_string(args.positional.size()));
  }
  for (std::size_t i = 0; i < args.positional.size(); ++i) values_[i] = std::move(args.positional[i]);
  for (auto& [name, value] : args.named) {
    const auto found = std::find(parameters.begin(), parameters.end(), name);
    if (found == parameters.end()) fail(what_ + " got an unexpected keyword argument '" + name + "'");
    auto& slot = values_[static_cast<std::size_t>(found - parameters.begin())];
    if (slot) fail(what_ + " got two values for '" + name + "'");
    slot = std::move(value);
  }
  for (std::size_t i = 0; i < required; ++i) {
    if (!values_[i]) fail(what_ + " misses its argument '" + std::string(parameters.begin()[i]) + "'");
  }
}

bool Bound::flag(std::size_t i, bool otherwise) const { return values_[i] ? truthy(*values_[i]) : otherwise; }

std::int64_t Bound::integer(std::size_t i, std::int64_t otherwise) const {
  if (!values_[i] || values_[i]->is_none()) return otherwise;
  if (const auto* undefined = values_[i]->as_undefined()) fail(*undefined->message);
  const auto number = values_[i]->as_int();
  if (!number) fail(what_ + ": an integer is required, not " + std::string(type_name(*values_[i])));
  return *number;
}

const Text& Bound::text(std::size_t i) const { return require_text(*values_[i], what_); }

const Text& require_text(const Value& value, std::string_view what) {
  if (const auto* undefined = value.as_undefined()) fail(*undefined->message);
  const auto* text = value.as_text();
  if (!text) fail(std::string(what) + ": a string is required, not " + std::string(type_name(value)));
  return *text;
}

}  // namespace model::text::jinja
