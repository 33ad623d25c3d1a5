#include "model/text/jinja/access.h"

#include <algorithm>
#include <charconv>

#include "model/text/jinja/builtins.h"
#include "model/text/jinja/print.h"

namespace model::text::jinja {
namespace {

class BoundMethod : public Callable {
 public:
  BoundMethod(Value self, Method method, std::string_view method_name)
      : self_(std::move(self)), method_(method) {
    name = method_name;
  }
  Value call(Runtime& runtime, Args args) const override { return method_(runtime, self_, std::move(args)); }

 private:
  Value self_;
  Method method_;
};

std::string described(const Value& object) {
  return object.is_none() ? "'None'" : "'" + std::string(type_name(object)) + " object'";
}

Value missing(Runtime& runtime, const Value& object, const Value& key) {
  if (const auto* name = key.as_text()) {
    return Value::undefined(described(object) + " has no attribute '" + std::string(name->bytes()) + "'");
  }
  Builder printed(runtime);
  repr(printed, key);
  return Value::undefined(described(object) + " has no element " + std::string(printed.take().bytes()));
}

/// Methods that would change a list or dict, and everything private: the sandbox answers with an undefined.
bool is_forbidden(const Value& object, std::string_view name) {
  if (name.starts_with("_")) return true;
  constexpr std::string_view kList[] = {"append", "reverse", "insert", "sort",
                                        "extend", "remove",  "clear",  "pop"};
  constexpr std::string_view kDict[] = {"clear", "pop", "popitem", "setdefault", "update"};
  if (const auto* list = object.as_list(); list && list->shape == List::Shape::list) {
    return std::find(std::begin(kList), std::end(kList), name) != std::end(kList);
  }
  return object.as_dict() && std::find(std::begin(kDict), std::end(kDict), name) != std::end(kDict);
}

Value loop_field(const Loop& loop, std::string_view name, bool& found) {
  const std::size_t length = loop.items->items.size(), index = loop.index;
  found = true;
  if (name == "index") return Value::count(index + 1);
  if (name == "index0") return Value::count(index);
  if (name == "first") return Value(index == 0);
  if (name == "last") return Value(index + 1 >= length);
  if (name == "length") return Value::count(length);
  if (name == "revindex") return Value::count(length - std::min(index, length));
  if (name == "revindex0")
    return Value(static_cast<std::int64_t>(length) - static_cast<std::int64_t>(index) - 1);
  if (name == "depth")
    return Value(std::int64_t{1});  // only recursive loops, which we do not have, go deeper
  if (name == "depth0") return Value(std::int64_t{0});
  if (name == "previtem") {
    return index == 0 ? Value::undefined("there is no previous item") : loop.items->items[index - 1];
  }
  if (name == "nextitem") {
    return index + 1 >= length ? Value::undefined("there is no next item") : loop.items->items[index + 1];
  }
  found = false;
  return Value();
}

Value cycle(Runtime&, const Value& self, Args args) {
  if (args.positional.empty()) fail("no items for cycling given");
  return args.positional[self.as_loop()->index % args.positional.size()];
}

Value changed(Runtime& runtime, const Value& self, Args args) {
  auto& last = self.as_loop()->changed;
  bool same = last && last->positional.size() == args.positional.size();
  for (std::size_t i = 0; same && i < args.positional.size(); ++i) {
    same = equal(runtime, last->positional[i], args.positional[i]);
  }
  last = std::move(args);
  return Value(!same);
}

Method find_method(const Value& object, std::string_view name) {
  if (object.as_text()) return find_text_method(name);
  if (const auto* list = object.as_list()) return find_list_method(list->shape, name);
  if (object.as_dict()) return find_dict_method(name);
  if (object.as_loop()) return name == "cycle" ? cycle : name == "changed" ? changed : nullptr;
  return nullptr;
}

/// What Python's getattr gives; null for an attribute that does not exist.
std::optional<Value> attribute_of(const Value& object, std::string_view name) {
  if (is_forbidden(object, name)) {
    return Value::undefined("access to attribute '" + std::string(name) + "' of '" +
                            std::string(type_name(object)) + "' object is unsafe");
  }
  if (const Method method = find_method(object, name)) {
    return Value(std::shared_ptr<const Callable>(std::make_shared<BoundMethod>(object, method, name)));
  }
  if (const auto* loop = object.as_loop()) {
    bool found = false;
    Value field = loop_field(*loop, name, found);
    if (found) return field;
  }
  if (const auto* space = object.as_namespace()) {
    if (const auto* value = space->attributes.find(name)) return *value;
  }
  if (const auto* callable = object.as_callable(); callable && name == "name")
    return Value::own(callable->name);
  return std::nullopt;
}

std::optional<Value> item_of(const Value& object, const Value& key) {
  if (const auto* dict = object.as_dict()) {
    if (key.as_list() && key.as_list()->shape != List::Shape::tuple) return std::nullopt;
    if (key.as_dict()) return std::nullopt;
    const auto* value = dict->find(key);
    return value ? std::optional(*value) : std::nullopt;
  }
  auto index = key.as_int();
  if (!index) return std::nullopt;
  if (const auto* list = object.as_list(); list && list->has_subscript()) {
    const auto size = static_cast<std::int64_t>(list->items.size());
    if (*index < 0) *index += size;
    if (*index < 0 || *index >= size) return std::nullopt;
    return list->items[static_cast<std::size_t>(*index)];
  }
  if (const auto* text = object.as_text()) {
    if (*index < 0) *index += static_cast<std::int64_t>(count_code_points(text->bytes()));
    if (*index < 0) return std::nullopt;
    const std::size_t first = code_point_offset(text->bytes(), static_cast<std::size_t>(*index));
    if (first == text->size()) return std::nullopt;
    return Value(text->slice(first, first + code_point_size(text->bytes(), first)));
  }
  return std::nullopt;
}

struct Range {
  std::int64_t start, count, step;
};

/// Python's slice.indices.
Range slice_range(std::int64_t size, const Value& start, const Value& stop, const Value& step) {
  const auto number = [](const Value& value, std::int64_t otherwise) {
    if (value.is_none()) return otherwise;
    const auto number = value.as_int();
    if (!number) fail("slice indices must be integers or None");
    return *number;
  };
  const std::int64_t by = number(step, 1);
  if (by == 0) fail("slice step cannot be zero");
  const std::int64_t low = by < 0 ? -1 : 0, high = by < 0 ? size - 1 : size;
  const auto clamped = [&](std::int64_t at) {
    if (at < 0) at = at < -size ? low : at + size;
    return std::clamp(at, std::min(low, high), std::max(low, high));
  };
  const std::int64_t first = start.is_none() ? (by < 0 ? high : low) : clamped(number(start, 0));
  const std::int64_t last = stop.is_none() ? (by < 0 ? low : high) : clamped(number(stop, 0));
  const std::int64_t distance = by < 0 ? first - last : last - first;
  if (distance <= 0) return {0, 0, by};
  // by > size would overflow a multiplication; one item is all that such a step reaches
  const std::int64_t stride = by < -size ? size
                              : by < 0   ? -by
                                         : std::min(by, std::max<std::int64_t>(size, 1));
  return {first, (distance - 1) / stride + 1, by < 0 ? -stride : stride};
}

Value text_slice(Runtime& runtime, const Text& text, const Value& start, const Value& stop,
                 const Value& step) {
  runtime.work(text.size());
  const Range range =
      slice_range(static_cast<std::int64_t>(count_code_points(text.bytes())), start, stop, step);
  if (range.count == 0) return Value(Text());
  Builder out(runtime);
  const auto first = code_point_offset(text.bytes(), static_cast<std::size_t>(range.start));
  if (range.step == 1) {
    const auto rest = text.bytes().substr(first);
    out.add(text, first, first + code_point_offset(rest, static_cast<std::size_t>(range.count)));
    return Value(out.take());
  }
  runtime.step(static_cast<std::size_t>(range.count));
  std::size_t at = first;
  for (std::int64_t taken = 0; taken < range.count; ++taken) {
    out.add(text, at, at + code_point_size(text.bytes(), at));
    if (taken + 1 == range.count) break;
    for (std::int64_t skip = 0; skip < range.step; ++skip) at += code_point_size(text.bytes(), at);
    for (std::int64_t skip = 0; skip > range.step; --skip) at = code_point_before(text.bytes(), at);
  }
  return Value(out.take());
}

}  // namespace

Value get_attribute(Runtime& runtime, const Value& object, std::string_view name) {
  if (const auto* undefined = object.as_undefined()) fail(*undefined->message);
  if (auto attribute = attribute_of(object, name)) return std::move(*attribute);
  if (const auto* dict = object.as_dict()) {
    if (const auto* value = dict->find(name)) return *value;
  }
  return missing(runtime, object, Value::own(name));
}

Value get_item(Runtime& runtime, const Value& object, const Value& key) {
  if (const auto* undefined = object.as_undefined()) fail(*undefined->message);
  if (const auto* text = object.as_text()) runtime.work(text->size());
  if (auto item = item_of(object, key)) return std::move(*item);
  if (const auto* name = key.as_text()) {
    if (auto attribute = attribute_of(object, name->bytes())) return std::move(*attribute);
  }
  return missing(runtime, object, key);
}

Value get_slice(Runtime& runtime, const Value& object, const Value& start, const Value& stop,
                const Value& step) {
  if (const auto* undefined = object.as_undefined()) fail(*undefined->message);
  if (const auto* text = object.as_text()) return text_slice(runtime, *text, start, stop, step);
  const auto* list = object.as_list();
  if (!list || !list->has_subscript()) fail(described(object) + " cannot be sliced");
  const Range range = slice_range(static_cast<std::int64_t>(list->items.size()), start, stop, step);
  std::vector<Value> items;
  items.reserve(static_cast<std::size_t>(range.count));
  std::int64_t at = range.start;
  for (std::int64_t taken = 0; taken < range.count; ++taken, at += range.step) {
    items.push_back(list->items[static_cast<std::size_t>(at)]);
  }
  return make_list(runtime, std::move(items),
                   list->shape == List::Shape::range ? List::Shape::list : list->shape);
}

Value get_path(Runtime& runtime, const Value& object, const Value& path, const Value* otherwise) {
  const auto* name = path.as_text();
  Value at = object;
  const auto enter = [&](const Value& key) {
    at = get_item(runtime, at, key);
    if (otherwise && !otherwise->is_none() && at.as_undefined()) at = *otherwise;
  };
  if (!name) {
    if (!path.is_none()) enter(path);
    return at;
  }
  std::string_view rest = name->bytes();
  while (true) {
    const std::size_t dot = rest.find('.');
    const std::string_view part = rest.substr(0, dot);
    std::int64_t index = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool is_index =
        !part.empty() && part[0] != '-' && error == std::errc{} && end == part.data() + part.size();
    enter(is_index ? Value(index) : Value::own(part));
    if (dot == std::string_view::npos) return at;
    rest.remove_prefix(dot + 1);
  }
}

bool is_callable(const Value& value) { return value.as_callable() != nullptr; }

}  // namespace model::text::jinja
