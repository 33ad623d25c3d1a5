#include <algorithm>
#include <array>

#include "model/text/jinja/builtins.h"
#include "model/text/jinja/print.h"

namespace model::text::jinja {
namespace {

constexpr std::int64_t kMaxRange = 100'000;  // the sandbox's own limit

class Function : public Callable {
 public:
  using Body = Value (*)(Runtime&, Args);
  Function(std::string_view function_name, Body body) : body_(body) { name = function_name; }
  Value call(Runtime& runtime, Args args) const override { return body_(runtime, std::move(args)); }

 private:
  Body body_;
};

Value range(Runtime& runtime, Args args) {
  const std::size_t count = args.positional.size();
  const Bound bound(std::move(args), "range()", {"start", "stop", "step"}, 1);
  const std::int64_t start = count > 1 ? bound.integer(0, 0) : 0;
  const std::int64_t stop = count > 1 ? bound.integer(1, 0) : bound.integer(0, 0);
  const std::int64_t step = bound.integer(2, 1);
  if (step == 0) fail("range() arg 3 must not be zero");
  auto list = std::make_shared<List>();
  list->shape = List::Shape::range;
  list->range = "range(" + std::to_string(start) + ", " + std::to_string(stop) +
                (step == 1 ? ")" : ", " + std::to_string(step) + ")");
  std::int64_t at = start;
  while (step > 0 ? at < stop : at > stop) {
    if (static_cast<std::int64_t>(list->items.size()) >= kMaxRange) {
      fail("range too big: more than " + std::to_string(kMaxRange) + " items");
    }
    runtime.step();
    list->items.emplace_back(at);
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  return Value(std::shared_ptr<const List>(std::move(list)));
}

/// dict(mapping or pairs, key=value, …)
Dict dict_of(Runtime& runtime, Args args, std::string_view what) {
  Dict dict;
  if (args.positional.size() > 1) fail(std::string(what) + " takes at most 1 positional argument");
  if (!args.positional.empty()) {
    const Value& source = args.positional.front();
    if (const auto* other = source.as_dict()) {
      runtime.step(other->entries().size());
      dict = *other;
    } else {
      const auto source_items = iterate(runtime, source);
      for (const auto& item : source_items->items) {
        const auto pair = iterate(runtime, item);
        if (pair->items.size() != 2) fail(std::string(what) + ": a sequence of pairs is required");
        runtime.step();
        dict.set(pair->items[0], pair->items[1]);
      }
    }
  }
  for (auto& [name, value] : args.named) dict.set(Value::own(name), std::move(value));
  return dict;
}

Value make_dict_value(Runtime& runtime, Args args) {
  return make_dict(dict_of(runtime, std::move(args), "dict()"));
}

Value make_namespace(Runtime& runtime, Args args) {
  auto space = std::make_shared<Namespace>();
  space->attributes = dict_of(runtime, std::move(args), "namespace()");
  runtime.keep(space);
  return Value(std::move(space));
}

Value raise_exception(Runtime& runtime, Args args) {
  const Bound bound(std::move(args), "raise_exception()", {"message"}, 1);
  throw Failure{std::string(to_text(runtime, bound[0]).bytes()), 0, true};
}

Value strftime_now(Runtime& runtime, Args args) {
  const Bound bound(std::move(args), "strftime_now()", {"format"}, 1);
  const Text& format = bound.text(0);
  constexpr std::size_t kMaxFormat = 1024;
  if (format.size() > kMaxFormat)
    fail("strftime_now(): format of more than " + std::to_string(kMaxFormat) + " bytes");
  const std::time_t now = runtime.now();
  std::tm local{};
  localtime_r(&now, &local);
  // the extra character tells an empty result from one that did not fit
  const std::string padded = std::string(format.bytes()) + "|";
  std::string out(64 * kMaxFormat, '\0');
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  const std::size_t size = std::strftime(out.data(), out.size(), padded.c_str(), &local);
#pragma GCC diagnostic pop
  out.resize(size == 0 ? 0 : size - 1);
  return Value(format.literal().empty() ? Text::own(std::move(out)) : Text::foreign(std::move(out)));
}

}  // namespace

const Value* find_global(std::string_view name) {
  static const auto functions = [] {
    std::vector<std::pair<std::string_view, Value>> all;
    const std::pair<std::string_view, Function::Body> bodies[] = {
        {"range", range},
        {"dict", make_dict_value},
        {"namespace", make_namespace},
        {"raise_exception", raise_exception},
        {"strftime_now", strftime_now},
    };
    for (const auto& [function_name, body] : bodies) {
      all.emplace_back(
          function_name,
          Value(std::shared_ptr<const Callable>(std::make_shared<Function>(function_name, body))));
    }
    return all;
  }();
  for (const auto& [known, value] : functions) {
    if (known == name) return &value;
  }
  return nullptr;
}

}  // namespace model::text::jinja
