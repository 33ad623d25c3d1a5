#include "model/text/jinja/value.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace model::text::jinja {
namespace {

constexpr int kMaxNesting = 500;  // of lists and dicts inside one another
constexpr std::size_t kScannedEntries = 8;

int nested(int deepest) {
  if (deepest >= kMaxNesting) fail("the template nests lists deeper than " + std::to_string(kMaxNesting));
  return deepest + 1;
}

bool is_sequence_pair(const List& a, const List& b) {
  const auto group = [](List::Shape shape) {
    return shape == List::Shape::items ? List::Shape::keys : shape;
  };
  return group(a.shape) == group(b.shape);
}

}  // namespace

std::optional<std::int64_t> Value::as_int() const {
  if (const auto* number = std::get_if<std::int64_t>(&data_)) return *number;
  if (const auto* truth = as_bool()) return *truth ? 1 : 0;
  return std::nullopt;
}

std::optional<double> Value::as_number() const {
  if (const auto* number = as_float()) return *number;
  if (const auto number = as_int()) return static_cast<double>(*number);
  return std::nullopt;
}

bool Value::is_same(const Value& other) const {
  if (data_.index() != other.data_.index()) return false;
  return std::visit(
      [&](const auto& mine) {
        using T = std::decay_t<decltype(mine)>;
        const auto& theirs = std::get<T>(other.data_);
        if constexpr (std::is_same_v<T, None>) {
          return true;
        } else if constexpr (std::is_same_v<T, Undefined>) {
          return mine.message == theirs.message;
        } else if constexpr (std::is_same_v<T, std::shared_ptr<const Text>>) {
          return mine->bytes() == theirs->bytes();
        } else {
          return mine == theirs;
        }
      },
      data_);
}

int depth_of(const Value& value) {
  if (const auto* list = value.as_list()) return list->depth;
  if (const auto* dict = value.as_dict()) return dict->depth();
  return 0;
}

Value make_list(Runtime& runtime, std::vector<Value> items, List::Shape shape) {
  runtime.check_items(items.size());
  runtime.step(items.size());
  auto list = std::make_shared<List>();
  int deepest = 0;
  for (const auto& item : items) deepest = std::max(deepest, depth_of(item));
  list->depth = nested(deepest);
  list->items = std::move(items);
  list->shape = shape;
  return Value(std::shared_ptr<const List>(std::move(list)));
}

Value make_dict(Dict dict) { return Value(std::make_shared<const Dict>(std::move(dict))); }

std::string key_of(const Value& value) {
  if (const auto* text = value.as_text()) return "s" + std::string(text->bytes());
  if (const auto number = value.as_int()) return "i" + std::to_string(*number);
  if (const auto* number = value.as_float()) {
    if (std::trunc(*number) == *number && std::fabs(*number) < 9.2e18) {
      return "i" + std::to_string(static_cast<std::int64_t>(*number));
    }
    std::string key(1 + sizeof(double), 'f');
    std::memcpy(key.data() + 1, number, sizeof(double));
    return key;
  }
  if (value.is_none()) return "n";
  if (value.as_undefined()) return "u";
  if (const auto* list = value.as_list(); list && list->shape == List::Shape::tuple) {
    std::string key = "t";
    for (const auto& item : list->items) {
      const std::string part = key_of(item);
      key += std::to_string(part.size()) + ":" + part;
    }
    return key;
  }
  const void* address = nullptr;
  if (const auto* space = value.as_namespace()) address = space;
  if (const auto* callable = value.as_callable()) address = callable;
  if (const auto* loop = value.as_loop()) address = loop;
  if (!address) fail("unhashable type: '" + std::string(type_name(value)) + "'");
  return "p" + std::to_string(reinterpret_cast<std::uintptr_t>(address));
}

std::optional<std::size_t> Dict::position(const Value& key) const {
  if (!index_.empty()) {
    const auto found = index_.find(key_of(key));
    return found == index_.end() ? std::nullopt : std::optional(found->second);
  }
  const auto* text = key.as_text();
  const std::string code = text ? std::string{} : key_of(key);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const auto* other = entries_[i].key.as_text();
    if (text ? other && other->bytes() == text->bytes() : !other && key_of(entries_[i].key) == code) return i;
  }
  return std::nullopt;
}

const Value* Dict::find(const Value& key) const {
  const auto at = position(key);
  return at ? &entries_[*at].value : nullptr;
}

const Value* Dict::find(std::string_view key) const {
  if (!index_.empty()) {
    const auto found = index_.find("s" + std::string(key));
    return found == index_.end() ? nullptr : &entries_[found->second].value;
  }
  for (const auto& entry : entries_) {
    if (const auto* text = entry.key.as_text(); text && text->bytes() == key) return &entry.value;
  }
  return nullptr;
}

void Dict::set(Value key, Value value) {
  depth_ = std::max(depth_, nested(std::max(depth_of(key), depth_of(value))));
  if (const auto at = position(key)) {
    entries_[*at].value = std::move(value);
    return;
  }
  if (!index_.empty()) {
    index_.emplace(key_of(key), entries_.size());
  } else if (entries_.size() == kScannedEntries) {
    for (std::size_t i = 0; i < entries_.size(); ++i) index_.emplace(key_of(entries_[i].key), i);
    index_.emplace(key_of(key), entries_.size());
  }
  entries_.push_back({std::move(key), std::move(value)});
}

std::string_view type_name(const Value& value) {
  if (value.is_none()) return "NoneType";
  if (value.as_undefined()) return "Undefined";
  if (value.as_bool()) return "bool";
  if (value.is_integer()) return "int";
  if (value.as_float()) return "float";
  if (value.as_text()) return "str";
  if (value.as_dict()) return "dict";
  if (value.as_namespace()) return "Namespace";
  if (value.as_callable()) return "function";
  if (value.as_loop()) return "LoopContext";
  switch (value.as_list()->shape) {
    case List::Shape::list:
      return "list";
    case List::Shape::tuple:
      return "tuple";
    case List::Shape::range:
      return "range";
    case List::Shape::keys:
      return "dict_keys";
    case List::Shape::values:
      return "dict_values";
    case List::Shape::items:
      return "dict_items";
    case List::Shape::generator:
      return "generator";
  }
  return "list";
}

bool truthy(const Value& value) {
  if (value.is_none() || value.as_undefined()) return false;
  if (const auto number = value.as_number()) return *number != 0;
  if (const auto* text = value.as_text()) return !text->empty();
  if (const auto* list = value.as_list())
    return list->shape == List::Shape::generator || !list->items.empty();
  if (const auto* dict = value.as_dict()) return !dict->entries().empty();
  return true;
}

bool equal(Runtime& runtime, const Value& a, const Value& b) {
  runtime.step();
  if (const auto x = a.as_int(), y = b.as_int(); x && y) return *x == *y;
  if (a.as_number() && b.as_number()) {
    const auto wide = [](const Value& value) {
      const auto whole = value.as_int();
      return whole ? static_cast<long double>(*whole) : static_cast<long double>(*value.as_float());
    };
    return wide(a) == wide(b);
  }
  if (const auto* x = a.as_text(), *y = b.as_text(); x && y) {
    runtime.work(std::min(x->size(), y->size()));
    return x->bytes() == y->bytes();
  }
  if (const auto* x = a.as_list(), *y = b.as_list(); x && y) {
    if (x->shape == List::Shape::generator || !is_sequence_pair(*x, *y) ||
        x->items.size() != y->items.size()) {
      return x == y;
    }
    for (std::size_t i = 0; i < x->items.size(); ++i) {
      if (!equal(runtime, x->items[i], y->items[i])) return false;
    }
    return true;
  }
  if (const auto* x = a.as_dict(), *y = b.as_dict(); x && y) {
    if (x->entries().size() != y->entries().size()) return false;
    for (const auto& entry : x->entries()) {
      const auto* other = y->find(entry.key);
      if (!other || !equal(runtime, entry.value, *other)) return false;
    }
    return true;
  }
  if (a.as_undefined() && b.as_undefined()) return true;
  return a.is_same(b);
}

bool less(Runtime& runtime, const Value& a, const Value& b) {
  runtime.step();
  for (const auto* side : {&a, &b}) {
    if (const auto* undefined = side->as_undefined()) fail(*undefined->message);
  }
  if (const auto x = a.as_int(), y = b.as_int(); x && y) return *x < *y;
  if (const auto x = a.as_number(), y = b.as_number(); x && y) return *x < *y;
  if (const auto* x = a.as_text(), *y = b.as_text(); x && y) {
    runtime.work(std::min(x->size(), y->size()));
    return x->bytes() < y->bytes();  // the order of UTF-8 bytes is the order of code points
  }
  const auto *x = a.as_list(), *y = b.as_list();
  if (x && y && x->shape == y->shape && (x->shape == List::Shape::list || x->shape == List::Shape::tuple)) {
    for (std::size_t i = 0; i < std::min(x->items.size(), y->items.size()); ++i) {
      if (!equal(runtime, x->items[i], y->items[i])) return less(runtime, x->items[i], y->items[i]);
    }
    return x->items.size() < y->items.size();
  }
  fail("'<' not supported between instances of '" + std::string(type_name(a)) + "' and '" +
       std::string(type_name(b)) + "'");
}

bool contains(Runtime& runtime, const Value& container, const Value& item) {
  if (const auto* text = container.as_text()) {
    const auto* part = item.as_text();
    if (const auto* undefined = item.as_undefined()) fail(*undefined->message);
    if (!part) fail("'in <string>' requires string as left operand, not " + std::string(type_name(item)));
    runtime.work(text->size());
    return find_bytes(text->bytes(), part->bytes(), 0) != std::string_view::npos;
  }
  if (const auto* dict = container.as_dict()) return dict->find(item) != nullptr;
  const auto items = iterate(runtime, container);
  for (const auto& candidate : items->items) {
    if (candidate.is_same(item) || equal(runtime, candidate, item)) return true;
  }
  return false;
}

std::shared_ptr<const List> iterate(Runtime& runtime, const Value& value) {
  if (auto items = value.share_list()) return items;
  auto list = std::make_shared<List>();
  if (const auto* dict = value.as_dict()) {
    runtime.step(dict->entries().size());
    for (const auto& entry : dict->entries()) list->items.push_back(entry.key);
  } else if (const auto* text = value.as_text()) {
    runtime.check_items(count_code_points(text->bytes()));
    runtime.step(2 * text->size());
    for (std::size_t at = 0; at < text->size();) {
      const std::size_t next = at + code_point_size(text->bytes(), at);
      list->items.emplace_back(text->slice(at, next));
      at = next;
    }
  } else if (!value.as_undefined()) {
    fail("'" + std::string(type_name(value)) + "' object is not iterable");
  }
  return list;
}

}  // namespace model::text::jinja
