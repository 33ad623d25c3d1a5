#include <algorithm>

#include "model/text/jinja/builtins.h"

namespace model::text::jinja {
namespace {

void no_arguments(Args args, std::string_view what) { const Bound none(std::move(args), what, {}); }

template <List::Shape shape>
Value view(Runtime& runtime, const Value& self, Args args) {
  no_arguments(std::move(args), "dict method");
  std::vector<Value> items;
  for (const auto& entry : self.as_dict()->entries()) {
    if (shape == List::Shape::keys)
      items.push_back(entry.key);
    else if (shape == List::Shape::values)
      items.push_back(entry.value);
    else
      items.push_back(make_list(runtime, {entry.key, entry.value}, List::Shape::tuple));
  }
  return make_list(runtime, std::move(items), shape);
}

Value get(Runtime&, const Value& self, Args args) {
  const Bound bound(std::move(args), "get()", {"key", "default"}, 1);
  if (const auto* value = self.as_dict()->find(bound[0])) return *value;
  return bound.has(1) ? bound[1] : Value();
}

Value copy(Runtime&, const Value& self, Args args) {
  no_arguments(std::move(args), "copy()");
  return self;  // nothing can change it, so itself is as good as a copy
}

Value count(Runtime& runtime, const Value& self, Args args) {
  const Bound bound(std::move(args), "count()", {"value"}, 1);
  const auto& items = self.as_list()->items;
  return Value(static_cast<std::int64_t>(std::count_if(
      items.begin(), items.end(), [&](const auto& item) { return equal(runtime, item, bound[0]); })));
}

Value index(Runtime& runtime, const Value& self, Args args) {
  const Bound bound(std::move(args), "index()", {"value", "start", "stop"}, 1);
  const auto& items = self.as_list()->items;
  const auto size = static_cast<std::int64_t>(items.size());
  const auto clamp = [&](std::int64_t at) {
    return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size);
  };
  const std::int64_t last = clamp(bound.integer(2, size));
  for (std::int64_t i = clamp(bound.integer(1, 0)); i < last; ++i) {
    if (equal(runtime, items[static_cast<std::size_t>(i)], bound[0])) return Value(i);
  }
  fail("the value is not in the list");
}

}  // namespace

Method find_list_method(List::Shape shape, std::string_view name) {
  const bool is_sequence =
      shape == List::Shape::list || shape == List::Shape::tuple || shape == List::Shape::range;
  if (!is_sequence) return nullptr;
  if (name == "count") return count;
  if (name == "index") return index;
  if (name == "copy" && shape == List::Shape::list) return copy;
  return nullptr;
}

Method find_dict_method(std::string_view name) {
  if (name == "items") return view<List::Shape::items>;
  if (name == "keys") return view<List::Shape::keys>;
  if (name == "values") return view<List::Shape::values>;
  if (name == "get") return get;
  if (name == "copy") return copy;
  return nullptr;
}

}  // namespace model::text::jinja
