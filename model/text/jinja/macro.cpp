#include "model/text/jinja/macro.h"

#include <algorithm>

#include "model/text/jinja/interpreter.h"

namespace model::text::jinja {
namespace {

/// Moves the argument of that name out of the others; false without one.
bool take_named(Args& args, std::string_view name, Value& into) {
  const auto found =
      std::find_if(args.named.begin(), args.named.end(), [&](const auto& arg) { return arg.first == name; });
  if (found == args.named.end()) return false;
  into = std::move(found->second);
  args.named.erase(found);
  return true;
}

}  // namespace

Value Macro::call(Runtime& runtime, Args args) const {
  const Nesting nesting(runtime);
  runtime.step();
  auto inner = std::make_shared<Scope>();
  inner->parent = scope_;
  Builder out(runtime);
  Interpreter interpreter(runtime, out);
  const std::size_t count = macro_.parameters.size();
  const std::size_t taken = std::min(count, args.positional.size());
  for (std::size_t i = 0; i < count; ++i) {
    const std::string& parameter = macro_.parameters[i];
    Value named;
    const bool is_named = take_named(args, parameter, named);
    if (i < taken) {
      if (is_named) fail("macro '" + macro_.name + "' got two values for '" + parameter + "'");
      inner->set(parameter, args.positional[i]);
    } else if (is_named) {
      inner->set(parameter, std::move(named));
    } else if (const std::size_t left = count - i; left <= macro_.defaults.size()) {
      inner->set(parameter, interpreter.evaluate(*macro_.defaults[macro_.defaults.size() - left], inner));
    } else {
      inner->set(parameter, Value::undefined("parameter '" + parameter + "' was not provided"));
    }
  }
  bind_surplus(runtime, args, taken, *inner);
  interpreter.run(macro_.body, inner);
  return Value(out.take());
}

void Macro::bind_surplus(Runtime& runtime, Args& args, std::size_t taken, Scope& inner) const {
  if (macro_.uses_caller &&
      std::find(macro_.parameters.begin(), macro_.parameters.end(), "caller") == macro_.parameters.end()) {
    Value caller = Value::undefined("no caller defined");
    take_named(args, "caller", caller);
    inner.set("caller", std::move(caller));
  }
  if (macro_.uses_kwargs) {
    Dict named;
    for (auto& [name, value] : args.named) named.set(Value::own(name), std::move(value));
    inner.set("kwargs", make_dict(std::move(named)));
  } else if (!args.named.empty()) {
    fail("macro '" + macro_.name + "' takes no keyword argument '" + args.named.front().first + "'");
  }
  std::vector<Value> surplus(args.positional.begin() + static_cast<std::ptrdiff_t>(taken),
                             args.positional.end());
  if (macro_.uses_varargs) {
    inner.set("varargs", make_list(runtime, std::move(surplus), List::Shape::tuple));
  } else if (!surplus.empty()) {
    fail("macro '" + macro_.name + "' takes not more than " + std::to_string(macro_.parameters.size()) +
         " argument(s)");
  }
}

}  // namespace model::text::jinja
