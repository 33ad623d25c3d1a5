#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "model/text/jinja/runtime.h"

namespace model::text::jinja {

class Value;
struct List;
class Dict;
struct Namespace;
struct Callable;
struct Loop;

struct None {};
/// What a missing name or attribute gives: empty and false, and a failure with this message as soon as it is
/// really used.
struct Undefined {
  std::shared_ptr<const std::string> message;
};

/// A value of the language, cheap to copy; Python's semantics. Lists, dicts and strings never change once
/// made (the sandbox of transformers forbids it), only namespaces do.
class Value {
 public:
  Value() : data_(None{}) {}
  Value(Undefined undefined) : data_(std::move(undefined)) {}  // NOLINT: a value is made of its parts
  Value(bool truth) : data_(truth) {}                          // NOLINT
  Value(std::int64_t number) : data_(number) {}                // NOLINT
  Value(double number) : data_(number) {}                      // NOLINT
  Value(Text text) : data_(std::make_shared<const Text>(std::move(text))) {}       // NOLINT
  Value(std::shared_ptr<const List> list) : data_(std::move(list)) {}              // NOLINT
  Value(std::shared_ptr<const Dict> dict) : data_(std::move(dict)) {}              // NOLINT
  Value(std::shared_ptr<Namespace> value) : data_(std::move(value)) {}             // NOLINT
  Value(std::shared_ptr<const Callable> callable) : data_(std::move(callable)) {}  // NOLINT
  Value(std::shared_ptr<Loop> loop) : data_(std::move(loop)) {}                    // NOLINT
  Value(const char*) = delete;                                                     // would be a bool
  static Value count(std::size_t n) { return Value(static_cast<std::int64_t>(n)); }
  static Value own(std::string_view bytes) { return Value(Text::own(std::string(bytes))); }
  static Value undefined(std::string message) {
    return Value(Undefined{std::make_shared<const std::string>(std::move(message))});
  }

  bool is_none() const { return std::holds_alternative<None>(data_); }
  const Undefined* as_undefined() const { return std::get_if<Undefined>(&data_); }
  const bool* as_bool() const { return std::get_if<bool>(&data_); }
  const double* as_float() const { return std::get_if<double>(&data_); }
  std::optional<std::int64_t> as_int() const;  ///< an int, or a bool as 0 or 1
  std::optional<double> as_number() const;     ///< int, bool or float
  const Text* as_text() const { return get<std::shared_ptr<const Text>>(); }
  const List* as_list() const { return get<std::shared_ptr<const List>>(); }
  std::shared_ptr<const List> share_list() const {
    const auto* list = std::get_if<std::shared_ptr<const List>>(&data_);
    return list ? *list : nullptr;
  }
  const Dict* as_dict() const { return get<std::shared_ptr<const Dict>>(); }
  Namespace* as_namespace() const { return get<std::shared_ptr<Namespace>>(); }
  const Callable* as_callable() const { return get<std::shared_ptr<const Callable>>(); }
  Loop* as_loop() const { return get<std::shared_ptr<Loop>>(); }
  bool is_integer() const { return std::holds_alternative<std::int64_t>(data_); }
  bool is_same(const Value& other) const;  ///< Python's `is`, as far as values here have an identity

 private:
  template <class Pointer>
  auto get() const -> typename Pointer::element_type* {
    const auto* pointer = std::get_if<Pointer>(&data_);
    return pointer ? pointer->get() : nullptr;
  }

  std::variant<None, Undefined, bool, std::int64_t, double, std::shared_ptr<const Text>,
               std::shared_ptr<const List>, std::shared_ptr<const Dict>, std::shared_ptr<Namespace>,
               std::shared_ptr<const Callable>, std::shared_ptr<Loop>>
      data_;
};

/// All of Python's sequences. `depth` (one more than the deepest item) is bounded, so that walking a value
/// cannot exhaust the stack.
struct List {
  enum class Shape { list, tuple, range, keys, values, items, generator };
  Shape shape = Shape::list;
  std::vector<Value> items;
  int depth = 1;
  std::string range;  ///< how a range prints

  bool has_subscript() const {
    return shape == Shape::list || shape == Shape::tuple || shape == Shape::range;
  }
};
Value make_list(Runtime& runtime, std::vector<Value> items, List::Shape shape = List::Shape::list);

/// Keeps the order of insertion. Keys compare as in Python: 1, 1.0 and True are one key.
class Dict {
 public:
  struct Entry {
    Value key, value;
  };
  const std::vector<Entry>& entries() const { return entries_; }
  const Value* find(const Value& key) const;  ///< fails for a key that cannot be one
  const Value* find(std::string_view key) const;
  void set(Value key, Value value);
  int depth() const { return depth_; }

 private:
  std::optional<std::size_t> position(const Value& key) const;

  std::vector<Entry> entries_;
  std::unordered_map<std::string, std::size_t> index_;  ///< by key_of; filled from the ninth entry on
  int depth_ = 1;
};
Value make_dict(Dict dict);

struct Namespace {
  Dict attributes;
};

struct Args {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

/// A macro, a global function or a method with its object.
struct Callable {
  virtual ~Callable() = default;
  virtual Value call(Runtime& runtime, Args args) const = 0;
  std::string name;
};

/// The `loop` of a running for.
struct Loop {
  std::shared_ptr<const List> items;
  std::size_t index = 0;
  std::optional<Args> changed;  ///< what loop.changed saw last
};

std::string_view type_name(const Value& value);
bool truthy(const Value& value);
bool equal(Runtime& runtime, const Value& a, const Value& b);
bool less(Runtime& runtime, const Value& a, const Value& b);  ///< fails for types without an order
bool contains(Runtime& runtime, const Value& container, const Value& item);
/// Equal for keys that are one key, different otherwise; fails for lists and dicts.
std::string key_of(const Value& value);
/// What iterating gives: items, keys, characters. Fails for what cannot be iterated.
std::shared_ptr<const List> iterate(Runtime& runtime, const Value& value);
int depth_of(const Value& value);

}  // namespace model::text::jinja
