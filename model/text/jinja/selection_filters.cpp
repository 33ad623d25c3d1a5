#include "model/text/jinja/access.h"
#include "model/text/jinja/filters.h"

namespace model::text::jinja {
namespace {

/// The first positional argument, taken away.
Value take_first(Args& args, std::string_view what) {
  if (args.positional.empty()) fail("missing parameter for " + std::string(what));
  Value first = std::move(args.positional.front());
  args.positional.erase(args.positional.begin());
  return first;
}

template <bool by_attribute, bool wanted>
Value choose(Runtime& runtime, const Value& input, Args args) {
  const Value attribute = by_attribute ? take_first(args, "attribute name") : Value();
  Test test = nullptr;
  if (!args.positional.empty()) {
    const Value name = take_first(args, "test");
    test = find_test(require_text(name, "filter select").bytes());
    if (!test) fail("no test named '" + std::string(name.as_text()->bytes()) + "'");
  }
  std::vector<Value> chosen;
  if (!truthy(input))
    return make_list(runtime, std::move(chosen), List::Shape::generator);  // none and 0 included
  const auto iterated = iterate(runtime, input);
  for (const auto& item : iterated->items) {
    runtime.step();
    const Value subject = by_attribute ? get_path(runtime, item, attribute) : item;
    if ((test ? test(runtime, subject, args) : truthy(subject)) == wanted) chosen.push_back(item);
  }
  return make_list(runtime, std::move(chosen), List::Shape::generator);
}

Value map(Runtime& runtime, const Value& input, Args args) {
  std::vector<Value> mapped;
  if (!truthy(input)) return make_list(runtime, std::move(mapped), List::Shape::generator);
  if (args.positional.empty()) {
    const Bound bound(std::move(args), "filter map", {"attribute", "default"}, 1);
    const auto iterated = iterate(runtime, input);
    for (const auto& item : iterated->items) {
      mapped.push_back(get_path(runtime, item, bound[0], bound.get(1)));
    }
    return make_list(runtime, std::move(mapped), List::Shape::generator);
  }
  const Value name = take_first(args, "filter map");
  const Filter filter = find_filter(require_text(name, "filter map").bytes());
  if (!filter) fail("no filter named '" + std::string(name.as_text()->bytes()) + "'");
  const Nesting nesting(runtime);
  const auto iterated = iterate(runtime, input);
  for (const auto& item : iterated->items) {
    runtime.step();
    mapped.push_back(filter(runtime, item, args));
  }
  return make_list(runtime, std::move(mapped), List::Shape::generator);
}

Value attr(Runtime& runtime, const Value& input, Args args) {
  const Bound bound(std::move(args), "filter attr", {"name"}, 1);
  const auto name = bound.text(0).bytes();
  if (input.as_dict() && !find_dict_method(name)) {  // attributes only, never items
    return Value::undefined("'dict object' has no attribute '" + std::string(name) + "'");
  }
  return get_attribute(runtime, input, name);
}

Value default_value(Runtime&, const Value& input, Args args) {
  const Bound bound(std::move(args), "filter default", {"default_value", "boolean"});
  const bool replaced = input.as_undefined() || (bound.flag(1, false) && !truthy(input));
  if (!replaced) return input;
  return bound.has(0) ? bound[0] : Value(Text());
}

constexpr std::pair<std::string_view, Filter> kFilters[] = {
    {"attr", attr},
    {"d", default_value},
    {"default", default_value},
    {"map", map},
    {"reject", choose<false, false>},
    {"rejectattr", choose<true, false>},
    {"select", choose<false, true>},
    {"selectattr", choose<true, true>},
};

}  // namespace

Filter find_selection_filter(std::string_view name) {
  for (const auto& [known, filter] : kFilters) {
    if (known == name) return filter;
  }
  return nullptr;
}

}  // namespace model::text::jinja
